"""Atropos groups (`data_path_to_save_groups`): one prompt group a line, values as lists over its samples.

`masks` holds the token id where a token is trained and -100 elsewhere; the response begins at the first
trained token. A log-prob of 1.0 marks a position that was not measured: it counts as missing. The file has no
group id and no step: a line is a group, named as derived.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.ingest import jsonl, names, prompts, scalars, sequences
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings
from storage.arrays import MISSING

MARKS = frozenset(("tokens", "masks", "scores"))
LOG_PROBS = {"inference_logprobs": "rollout_log_probs", "ref_logprobs": "ref_log_probs"}
#: Lists with an entry for each sample.
PER_SAMPLE = (*MARKS, "advantages", "messages", "overrides", "images", *LOG_PROBS)
UNTRAINED = -100


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and isinstance(row["tokens"], list)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step, split = names.step(source), names.split(source)
    count = 0

    def convert(
        row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
    ) -> Iterator[Rollout | Problem]:
        nonlocal count
        count += 1
        for item in _group(row, count, fields, notes):
            if isinstance(item, Rollout):
                names.fill(item, step, split)
            yield item

    yield from jsonl.read_many(source, settings, convert, Header(raw={"framework": "atropos"}))


def _group(row: int, line: int, fields: dict[str, Any], notes: Notes) -> Iterator[Rollout | Problem]:
    sequences_of = fields.get("tokens")
    if not isinstance(sequences_of, list) or not sequences_of:
        yield Problem(f"row {row}: group {line} has no tokens; not taken", "no_response", "error", row)
        return
    size = len(sequences_of)
    lists = {name: _per_sample(row, name, fields.get(name), size, notes) for name in PER_SAMPLE}
    others = {name: value for name, value in fields.items() if name not in PER_SAMPLE and value is not None}
    for number in range(size):
        one = {name: values[number] for name, values in lists.items() if values is not None}
        yield _rollout(row + number, line, number, one, others, notes)


def _per_sample(row: int, name: str, value: Any, size: int, notes: Notes) -> list[Any] | None:
    """The list, where it has an entry for each sample of the group."""
    if value is None:
        return None
    if isinstance(value, list) and len(value) == size:
        return value
    found = f"{len(value)} entries" if isinstance(value, list) else "no list"
    message = f"{name} has {found} for {size} samples; left out of the group, never padded or shifted"
    notes.warn(row, name, "length_mismatch", message)
    return None


def _rollout(
    row: int, line: int, number: int, one: dict[str, Any], others: dict[str, Any], notes: Notes
) -> Rollout | Problem:
    record = Rollout(row, sample_index=number)
    record.group_id, record.derived["group_id"] = f"line-{line}", "derived:line"
    messages = one.get("messages")
    if prompts.is_messages(messages) and messages:
        first = prompts.first_answer(messages)
        prompts.set_prompt(record, messages[:first], notes)
        prompts.set_response(record, messages[first:], notes)
    elif messages is not None:
        record.extra["messages"] = messages
    values: dict[str, Any] = {"response_ids": one.get("tokens"), "response_mask": _mask(one.get("masks"))}
    for name, canonical in LOG_PROBS.items():
        values[canonical] = _measured(one.get(name))
    advantages = one.get("advantages")
    if isinstance(advantages, list):
        values["advantages"] = advantages
    else:
        record.advantage = scalars.number(row, "advantage", advantages, notes)
    sequences.set_tokens(record, values, notes)
    if "response_ids" not in record.tokens:
        return Problem(f"row {row}: no token ids; the row was not taken", "no_response", "error", row)
    record.reward = scalars.number(row, "reward", one.get("scores"), notes)
    record.extra |= others | {
        name: one[name] for name in ("overrides", "images") if one.get(name) not in (None, [], {})
    }
    return record


def _mask(value: Any) -> Any:
    if isinstance(value, list) and all(type(item) is int for item in value):
        return (np.array(value, dtype=np.float64) != UNTRAINED).astype(np.uint8)
    return value


def _measured(value: Any) -> Any:
    """Log-probs with those that say "not measured" as missing."""
    if isinstance(value, list):
        return [None if item == 1.0 else item for item in value]
    if isinstance(value, np.ndarray):
        return np.where(value == 1.0, MISSING, value)
    return value


ABOUT = About(
    setting="`data_path_to_save_groups` of the environment",
    files="`{path}`, `{path}_1.jsonl` …, appended",
    recorded=("prompt_ids", "response_ids", "response_mask", "reward", "sample_index"),
    sometimes=(
        "prompt_messages", "messages", "rollout_log_probs", "ref_log_probs", "advantages", "advantage",
        "prompt", "response",
    ),
    derived={
        "group_id": "a line is a group", "prompt": "messages", "response": "messages",
        "step": "file or folder name, where it has one", "split": "file or folder name",
    },
    absent={
        "old_log_probs": "", "values": "", "returns": "", "reward_components": "", "ground_truth": "",
        "data_source": "",
    },
)  # fmt: skip
FORMAT = Format("atropos-groups", "Atropos groups, JSONL", sniff, read, about=ABOUT)
