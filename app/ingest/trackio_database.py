"""Trackio's database: {TRACKIO_DIR}/{project}.db, an SQLite file with metrics of all runs of a project.

A metric may be a table ({"_type": "trackio.table", "_value": [row, …]}) as TRL logs its completions; traces
are in a table of their own. Numbers that are not finite were written as the texts "NaN" and "Infinity".
"""

import sqlite3
from array import array
from collections.abc import Iterator
from typing import Any

import simdjson

from app.ingest import completions, named_rows, sqlite, trackio_traces, wandb_tables
from app.ingest.json_rows import NotJson, TooDeep, parse
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source, Unreadable
from app.settings import Settings

METRICS = frozenset(("run_name", "step", "metrics"))
TRACES = frozenset(("run_name", "step", "key", "messages", "metadata"))
MEMO = "sqlite_tables"
TABLE = "trackio.table"
TEXTS = frozenset(("prompt", "completion", "response", "text", "input", "output"))
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def sniff(source: Source, settings: Settings) -> bool:
    found = tables(source)
    return found is not None and found.get("metrics", frozenset()) >= METRICS


def tables(source: Source) -> dict[str, frozenset[str]] | None:
    """The tables of a database, None where this is none that can be opened."""
    if not source.head.startswith(sqlite.MAGIC):
        return None
    if MEMO not in source.memo:
        try:
            with sqlite.opened(source) as connection:
                source.memo[MEMO] = sqlite.tables(connection)
        except (Unreadable, *sqlite.DAMAGED):
            source.memo[MEMO] = None
    found: dict[str, frozenset[str]] | None = source.memo[MEMO]
    return found


def read(source: Source, settings: Settings) -> Iterator[Item]:
    held = tables(source) or {}
    reader = _Reader(settings)
    with sqlite.opened(source) as connection:
        try:
            yield from _runs(connection, held, reader)
        except sqlite.DAMAGED as error:
            message = (
                f"the database is damaged or takes too long ({error}); rows before stand. Copy it again."
            )
            raise Unreadable(message, "sqlite_damaged") from None
    yield from reader.notes.summary()
    if sqlite.in_wal_mode(source):
        message = (
            "the database is in WAL mode: what lies in its -wal file is not in here. Copy it after the run, "
            "or run `sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'` first"
        )
        yield Problem(message, "wal", "info" if reader.row else "warning")


def _runs(
    connection: sqlite3.Connection, held: dict[str, frozenset[str]], reader: "_Reader"
) -> Iterator[Item]:
    kinds = [("metrics", reader.metrics)]
    if held.get("traces", frozenset()) >= TRACES:
        kinds.append(("traces", reader.trace))
    places = {table: _places(connection, table) for table, _ in kinds}
    for name in places["metrics"]:
        yield Header(run=_text(name), raw={"framework": "trackio"})
        for table, convert in kinds:
            columns = sorted(held[table] & (METRICS | TRACES | {"id", "trace_index"}))
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?"
            for place in places[table].get(name, ()):
                for values in connection.execute(query, (place,)):
                    yield from convert(dict(zip(columns, values, strict=True)))


def _places(connection: sqlite3.Connection, table: str) -> dict[Any, "array[int]"]:
    """The records of each run, in the order of the table: found in one pass, however many runs there are."""
    found: dict[Any, array[int]] = {}
    for place, name in connection.execute(f"SELECT rowid, run_name FROM {table} ORDER BY rowid"):
        found.setdefault(name, array("q")).append(place)
    return found


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


class _Reader:
    """Turns records of the database into rows, numbered over all of them."""

    def __init__(self, settings: Settings) -> None:
        self.notes, self.row = Notes(), 0
        self._depth, self._parser = settings.max_depth, simdjson.Parser()
        self._said = False

    def _json(self, value: Any) -> Any:
        """The value of JSON that stands in a cell: an object or a list; None for anything else."""
        if not isinstance(value, bytes):
            return None
        try:
            return parse(self._parser, b'{"value":' + value + b"}", self._depth, {}).fields.get("value")
        except (NotJson, TooDeep):
            self.notes.tally(self.row + 1, "metrics", "not_json", "a record of metrics is no JSON", "warning")
            return None

    def metrics(self, record: dict[str, Any]) -> Iterator[Item]:
        """The rows of the tables among one step's metrics."""
        held = self._json(record.get("metrics"))
        for key, metric in held.items() if isinstance(held, dict) else ():
            if isinstance(metric, dict) and metric.get("_type") == TABLE:
                rows = metric.get("_value")
                if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                    yield from self._table(str(key), rows, record.get("step"))

    def _table(self, key: str, rows: list[Any], step: Any) -> Iterator[Item]:
        names = set(rows[0])
        if not (names >= {"prompt", "completion"} or "output_1" in names or named_rows.is_rollouts(names)):
            message = f"the table {key} has the columns {', '.join(sorted(names)[:8])}: no rollouts; left out"
            self.notes.tally(self.row + 1, key, "no_rollouts", message)
            return
        rewards = completions.reward_names(list(_after(rows[0])), _numbers(rows[0]))
        if rewards and "completion" in names and not self._said:
            self._said = True
            yield completions.said(rewards)
        for place, fields in enumerate(rows, 1):
            for item in self._row(fields, names, rewards):
                self.row += 1
                if isinstance(item, Rollout):
                    _place(item, key, step, place)
                yield from self.notes.drain()
                yield item

    def _row(self, fields: Any, names: set[str], rewards: list[str]) -> Iterator[Rollout | Problem]:
        row = self.row + 1
        if not isinstance(fields, dict):
            yield Problem(f"row {row}: it is no object; not taken", "bad_row", "error", row)
            return
        fields = _numbers(fields)
        if names >= {"prompt", "completion"}:
            yield completions.rollout(row, fields, rewards, self.notes)
        elif "output_1" in names:
            found = (match for name in names if (match := wandb_tables.WIDE.fullmatch(name)))
            numbers = sorted({int(match[2]) for match in found})
            yield from wandb_tables.validation(row, fields, numbers, self.notes)
        else:
            yield named_rows.rollout(row, fields, self.notes)

    def trace(self, record: dict[str, Any]) -> Iterator[Item]:
        """One trace: its messages are the conversation."""
        messages, metadata = self._json(record.get("messages")), self._json(record.get("metadata"))
        own = {
            "step": record.get("step"), "key": _text(record.get("key")), "metadata": metadata,
            "trace_index": record.get("trace_index"),
        }  # fmt: skip
        lines = (
            [{"message": message} for message in messages if isinstance(message, dict)] if messages else []
        )
        self.row += 1
        head = {"id": _text(record.get("id")), "trackio": own}
        item = trackio_traces.rollout(self.row, (head, lines), self.notes)
        yield from self.notes.drain()
        yield item


def _after(fields: dict[str, Any]) -> Iterator[str]:
    """The columns after the completion."""
    names = list(fields)
    yield from names[names.index("completion") + 1 :] if "completion" in names else ()


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: NUMBERS.get(value, value) if isinstance(value, str) and name not in TEXTS else value
        for name, value in fields.items()
    }


def _place(record: Rollout, key: str, step: Any, place: int) -> None:
    if record.step is None and type(step) is int:
        record.step, record.derived["step"] = step, "derived:step of the metric"
    if record.sample_id is None:
        record.sample_id = f"{key} step {record.step} row {place}"
        record.derived["sample_id"] = wandb_tables.PLACE_RULE


ABOUT = About(
    setting="`report_to=\"trackio\"` with `log_completions=True` (TRL); `trackio.Table`, `trackio.Trace`",
    files="`{TRACKIO_DIR}/{project}.db`",
    recorded=(),
    sometimes=(
        "step", "prompt", "response", "reward", "reward_components", "advantage", "ground_truth",
        "prompt_messages", "messages", "sample_id", "sample_index",
    ),
    derived={
        "reward": "sum of the reward functions with weights 1", "group_id": "runs of identical prompts",
        "sample_id": "step and place in the table", "prompt": "messages", "response": "messages",
        "step": "step of the metric", "split": "the key that it was logged under",
    },
    absent={name: "" for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages")},
)  # fmt: skip
FORMAT = Format("trackio-db", "Trackio database, SQLite", sniff, read, groups="adjacent", about=ABOUT)
