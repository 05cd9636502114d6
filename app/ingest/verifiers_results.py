"""Results of verifiers 0.1 and 0.2 (results.jsonl) and prime-rl's rollouts of April to July 2026.

One rollout a row, the group is `example_id`. Each metric stands in `metrics` and again at the top. Tool calls
are JSON texts inside the messages and become objects. There are no ids, log-probs or masks; verifiers has no
step, prime-rl's is in the folder's name. metadata.json beside the rows goes into the batch's header.
"""

import json
from collections.abc import Iterator
from typing import Any

from app.ingest import canonical, documents, jsonl, names, prompts, scalars
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source, Unreadable
from app.settings import Settings

MARKS = frozenset(("example_id", "completion"))
METADATA = frozenset(("env_id", "rollouts_per_example"))
MAPPED = frozenset((
    "example_id", "prompt", "completion", "answer", "reward", "metrics", "is_truncated", "stop_condition",
    "advantage", "env_name",
))  # fmt: skip
MOST_METADATA = 16 << 20


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    first = jsonl.first_row(source, settings) or {}
    trainer = "advantage" in first or "env_name" in first
    step, split = names.step(source), names.split(source)

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        item = _rollout(row, fields, notes)
        if isinstance(item, Rollout):
            names.fill(item, step, split)
        return item

    header = Header(raw={"framework": "prime-rl" if trainer else "verifiers"})
    yield from jsonl.read(source, settings, convert, header)


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    prompts.set_prompt(record, with_calls(row, fields.get("prompt"), notes), notes)
    completion = with_calls(row, fields.get("completion"), notes)
    if completion is None or not prompts.set_response(record, completion, notes):
        message = f"row {row}: no completion; the row was not taken"
        return Problem(message, "no_response", "error", row, "completion")
    record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
    record.advantage = scalars.number(row, "advantage", fields.get("advantage"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("answer"), notes)
    record.finish_reason = scalars.text(row, "finish_reason", fields.get("stop_condition"), notes)
    record.truncated = scalars.boolean(row, "truncated", fields.get("is_truncated"), notes)
    env = record.data_source = scalars.text(row, "data_source", fields.get("env_name"), notes)
    if found := scalars.typed_id(fields.get("example_id")):
        record.group_id, kind = found
        # Examples are counted within an environment.
        record.extra["group_id_type"] = kind if env is None else f"{kind} of {env}"
    metrics = fields.get("metrics")
    if isinstance(metrics, dict) and metrics:
        record.reward_components = canonical.reward_components(row, metrics, notes)
    again = metrics if isinstance(metrics, dict) else {}
    record.extra |= {
        name: value
        for name, value in fields.items()
        if name not in MAPPED and value is not None and (name not in again or again[name] != value)
    }
    return record


def with_calls(row: int, messages: Any, notes: Notes) -> Any:
    """Messages whose tool calls are objects, where they were written as JSON texts."""
    if not prompts.is_messages(messages):
        return messages
    found = []
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list) and any(isinstance(call, str) for call in calls):
            message = message | {"tool_calls": [_call(call) for call in calls]}
            notes.tally(row, "messages", "tool_calls_parsed", "tool calls are JSON texts; read as objects")
        found.append(message)
    return found


def _call(call: Any) -> Any:
    if not isinstance(call, str):
        return call
    try:
        return json.loads(call)
    except (ValueError, RecursionError):
        return call


def sniff_metadata(source: Source, settings: Settings) -> bool:
    return set(documents.keys(source)) >= METADATA and documents.is_document(source)


def read_metadata(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header(raw=whole(source, settings))


def whole(source: Source, settings: Settings) -> dict[str, Any]:
    """A small document's members. Raises Unreadable where it is no small one."""
    found, size = {}, 0
    for member in documents.members(source, settings):
        size += len(member.data)
        if size > MOST_METADATA:
            raise Unreadable(f"metadata of more than {MOST_METADATA:,} bytes", "too_large")
        found[member.key] = documents.value(member, settings)
    return found


ABOUT = About(
    setting="every evaluation of verifiers 0.1 and 0.2; prime-rl of April to July 2026: on by default",
    files=(
        "`outputs/evals/{env}--{model}/{run}/results.jsonl` + `metadata.json`; prime-rl "
        "`rollouts/step_{n}/train_rollouts.jsonl`, `eval_rollouts_{env}.jsonl`"
    ),
    recorded=(
        "group_id", "prompt_messages", "messages", "reward", "reward_components", "ground_truth",
        "finish_reason", "truncated",
    ),
    sometimes=("advantage", "data_source", "prompt", "response"),
    derived={
        "prompt": "messages", "response": "messages", "step": "folder name (prime-rl)",
        "split": "file name (prime-rl)",
    },
    absent={
        name: "traces.jsonl of verifiers from 0.3 on"
        for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages")
    },
)  # fmt: skip
FORMAT = Format(
    "verifiers-results", "verifiers results or prime-rl rollouts (to July 2026), JSONL", sniff, read,
    about=ABOUT,
)  # fmt: skip
META = Format(
    "verifiers-metadata", "metadata of a verifiers evaluation", sniff_metadata, read_metadata,
    companion=True, of=("verifiers-results", "verifiers-traces"),
)  # fmt: skip
