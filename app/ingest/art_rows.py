"""ART's trajectories: messages of which those that the model wrote are marked, a reward, metrics.

Parquet (0.5 and later) has a row per trajectory; the files before it have a group per line (JSONL) or per
item of one list (YAML, mid-2025), in which a sampled message is a choice ({"message", "finish_reason"}).
"""

import json
from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, names, parquet, prompts, scalars
from app.ingest.canonical_parquet import without_nulls
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("group_index", "reward", "messages", "metrics"))
GROUP_MARKS = frozenset(("trajectories",))
TRAJECTORY = frozenset(("reward", "messages_and_choices"))
#: Columns that hold JSON as text.
JSON = ("group_metadata", "group_metrics", "metrics", "metadata", "tools")
KEPT = ("group_metadata", "group_metrics", "group_logs", "metadata", "tools", "logs", "additional_histories")
TASK = ("task", "data_source", "scenario", "dataset")


def sniff(source: Source, settings: Settings) -> bool:
    found = parquet.columns(source)
    return found is not None and found >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    table = parquet.checked(source, settings)
    yield Header(raw={"framework": "art"})
    for number, fields in parquet.rows(table, source):
        for name in JSON:
            fields[name] = _json(fields.get(name))
        item = trajectory(number, fields, fields.get("messages"), notes)
        if isinstance(item, Rollout):
            _set_group(item, fields.get("group_index"))
            names.fill(item, names.step(source, bare=True), names.split(source))
        yield from notes.drain()
        yield item
    yield from notes.summary()


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def sniff_lines(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and is_group(row)


def is_group(value: Any) -> bool:
    """A group of the older files: {"trajectories": [{reward, messages_and_choices, …}], …}."""
    held = value.get("trajectories") if isinstance(value, dict) else None
    first = held[0] if isinstance(held, list) and held else None
    return isinstance(first, dict) and first.keys() >= TRAJECTORY


def read_lines(source: Source, settings: Settings) -> Iterator[Item]:
    place = names.step(source, bare=True), names.split(source)
    groups = 0

    def convert(
        first: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
    ) -> Iterator[Rollout | Problem]:
        nonlocal groups
        for item in of_group(first, fields, groups, notes):
            if isinstance(item, Rollout):
                names.fill(item, *place)
            yield item
        groups += 1

    yield from jsonl.read_many(source, settings, convert, Header(raw={"framework": "art"}))


def of_group(first: int, group: Any, number: int, notes: Notes) -> Iterator[Rollout | Problem]:
    """The trajectories of one group of the older files; rows are numbered from `first`."""
    held = group.get("trajectories") if isinstance(group, dict) else None
    if not isinstance(held, list):
        message = f"row {first}: no list of trajectories; the group was not taken"
        yield Problem(message, "no_response", "error", first, "trajectories")
        return
    for row, fields in enumerate(held, first):
        if not isinstance(fields, dict):
            yield Problem(f"row {row}: a trajectory is no object; not taken", "bad_row", "error", row)
            continue
        named = fields | {"group_metadata": group.get("metadata")}
        item = trajectory(row, named, fields.get("messages_and_choices"), notes)
        if isinstance(item, Rollout):
            item.group_id, item.derived["group_id"] = str(number), "derived:place in the file"
        yield item


def _set_group(record: Rollout, index: Any) -> None:
    if found := scalars.typed_id(index):
        record.group_id = found[0]


def trajectory(row: int, fields: dict[str, Any], held: Any, notes: Notes) -> Rollout | Problem:
    """One trajectory: the response begins at the first message that the model wrote."""
    messages = [_message(item) for item in held] if isinstance(held, list) else []
    if not messages or not prompts.is_messages(messages):
        return Problem(
            f"row {row}: no messages; the row was not taken", "no_response", "error", row, "messages"
        )
    record = Rollout(row)
    first = next((at for at, item in enumerate(messages) if item.get("trainable")), None)
    if first is None:
        first = prompts.first_answer(messages)
    prompts.set_prompt(record, messages[:first] or None, notes)
    if not messages[first:] or not prompts.set_response(record, messages[first:], notes):
        message = f"row {row}: no message of the model; the row was not taken"
        return Problem(message, "no_response", "error", row, "messages")
    record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
    _set_metrics(record, fields.get("metrics"))
    reasons = [item["finish_reason"] for item in held if isinstance(item, dict) and item.get("finish_reason")]
    if reasons and isinstance(reasons[-1], str):
        record.finish_reason = reasons[-1]
    record.extra |= {name: fields[name] for name in KEPT if fields.get(name) not in (None, [], {})}
    for about in (fields.get("metadata"), fields.get("group_metadata")):
        source = (
            next((about[name] for name in TASK if name in about), None) if isinstance(about, dict) else None
        )
        if record.data_source is None and isinstance(source, str):
            record.data_source, record.derived["data_source"] = source, "derived:metadata"
    return record


def _message(item: Any) -> Any:
    """A message as everywhere else, marked where the model wrote it."""
    if not isinstance(item, dict):
        return item
    plain: dict[str, Any] = without_nulls(item)
    if isinstance(plain.get("message"), dict):
        return without_nulls(plain["message"]) | {"trainable": True}
    calls = _json(plain.get("tool_calls"))
    if calls is not None:
        plain["tool_calls"] = calls
    return plain


def _set_metrics(record: Rollout, metrics: Any) -> None:
    """Numbers go to the reward's components by their names; what else was measured is kept beside them."""
    if not isinstance(metrics, dict):
        return
    numbers = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
    record.reward_components = {name: float(value) for name, value in numbers.items()} or None
    if rest := {name: value for name, value in metrics.items() if name not in numbers}:
        record.extra["metrics"] = rest


_TOKENS = {
    name: "no setting of ART: token values are dropped when trajectories are written"
    for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages")
}
_COMMON = ("prompt_messages", "messages", "reward")
_DERIVED = {
    "prompt": "messages", "response": "messages", "data_source": "task of the metadata",
    "step": "file name", "split": "folder name",
}  # fmt: skip
ABOUT = About(
    setting="always on",
    files="`.art/{project}/models/{model}/trajectories/{split}/{step:04d}.parquet`",
    recorded=("group_id", *_COMMON),
    sometimes=("reward_components",),
    derived=_DERIVED,
    absent=_TOKENS,
)
LINES_ABOUT = About(
    setting="always on (before 0.5)",
    files="`…/trajectories/{split}/{step:04d}.jsonl`",
    recorded=_COMMON,
    sometimes=("finish_reason", "reward_components"),
    derived=_DERIVED | {"group_id": "place in the file"},
    absent=_TOKENS,
)
FORMAT = Format("art-parquet", "ART trajectories, Parquet", sniff, read, about=ABOUT)
LINES = Format("art-jsonl", "ART trajectory groups, JSONL", sniff_lines, read_lines, about=LINES_ABOUT)
