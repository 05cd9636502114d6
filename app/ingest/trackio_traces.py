"""Trackio's traces: traces/{project}/{run}/*.jsonl, typed lines; a session line and its messages are a row.

Run and step are in the session line, the score in its metadata. There is no group id: groups are identical
prompts.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import simdjson

from app.ingest import jsonl, prompts, scalars
from app.ingest.json_rows import NotJson, TooDeep, parse
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.get("type") == "session" and isinstance(row.get("trackio"), dict)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    first = jsonl.first_row(source, settings) or {}
    run = first["trackio"].get("run_name")
    yield Header(run=run if isinstance(run, str) else None, raw={"framework": "trackio"})
    notes = Notes()
    for row, item in enumerate(_sessions(source, settings), 1):
        made = replace(item, row=row) if isinstance(item, Problem) else rollout(row, item, notes)
        yield from notes.drain()
        yield made
    yield from notes.summary()


Session = tuple[dict[str, Any], list[dict[str, Any]]]


def _sessions(source: Source, settings: Settings) -> Iterator[Session | Problem]:
    """Each session line with the lines up to the next one; lines that are no JSON as problems."""
    parser = simdjson.Parser()
    session: dict[str, Any] | None = None
    lines: list[dict[str, Any]] = []
    for line in jsonl.rows(source, settings):
        if not line.data:
            continue
        try:
            fields = None if line.too_long else parse(parser, line.data, settings.max_depth).fields
        except (NotJson, TooDeep):
            fields = None
        if fields is None:
            yield Problem(f"line {line.number} is no JSON row; skipped", "not_json", "error")
        elif fields.get("type") == "session":
            if session is not None:
                yield session, lines
            session, lines = fields, []
        else:
            lines.append(fields)
    if session is not None:
        yield session, lines


def rollout(row: int, session: Session, notes: Notes) -> Rollout | Problem:
    head, lines = session
    record = Rollout(row)
    messages = [line["message"] for line in lines if isinstance(line.get("message"), dict)]
    first = prompts.first_answer(messages)
    if not messages[first:] or not prompts.is_messages(messages):
        message = f"row {row}: the trace has no answer; it was not taken"
        return Problem(message, "no_response", "error", row)
    prompts.set_prompt(record, messages[:first], notes)
    prompts.set_response(record, messages[first:], notes)
    own = head.get("trackio")
    own = own if isinstance(own, dict) else {}
    metadata = own.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    record.step = scalars.integer(row, "step", own.get("step"), notes)
    record.sample_id = scalars.text(row, "sample_id", head.get("id"), notes)
    index = metadata.get("sample_index", own.get("trace_index"))
    record.sample_index = scalars.integer(row, "sample_index", index, notes)
    score = metadata.get("score", metadata.get("reward"))
    record.reward = scalars.number(row, "reward", score, notes)
    key = own.get("key")
    if isinstance(key, str) and key.split("/")[0] in ("val", "eval", "train"):
        record.split = "train" if key.startswith("train") else "val"
        record.derived["split"] = "derived:key"
    record.extra = {name: value for name, value in head.items() if name != "type"}
    kinds = [line for line in lines if not isinstance(line.get("message"), dict)]
    if kinds:
        record.extra["other_lines"] = kinds
    return record


ABOUT = About(
    setting="`trackio.Trace` logged by the trainer (verl: `trainer.log_val_generations` with trackio)",
    files="`{TRACKIO_DIR}/traces/{project}/{run}/*.jsonl`",
    recorded=("step", "sample_id", "sample_index", "prompt_messages", "messages"),
    sometimes=("reward",),
    derived={
        "prompt": "messages", "response": "messages", "split": "the key that it was logged under",
        "group_id": "identical prompts",
    },
    absent={"response_ids": "", "response_mask": "", "rollout_log_probs": "", "advantages": ""},
)  # fmt: skip
FORMAT = Format("trackio-traces", "Trackio traces, JSONL", sniff, read, about=ABOUT)
