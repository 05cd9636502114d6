"""TRL's completions Parquet (`log_completions=True`): completions/completions_{step:05d}.parquet.

Columns: step, prompt, completion (text or chat messages), one double column per reward function, what the
user logged besides, advantage. The file has no total reward (the weights are in the trainer's configuration)
and no group id: rewards are summed with weights 1 and groups are runs of identical prompts; both are named as
derived.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from app.ingest import parquet, prompts, scalars
from app.ingest.canonical_parquet import without_nulls
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

FIXED = ("step", "prompt", "completion", "advantage")
MARKS = frozenset(("prompt", "completion", "advantage"))
REWARD_RULE = "derived:sum(components, weights 1)"
_STEP = re.compile(r"completions_(\d+)\.parquet$")


def sniff(source: Source, settings: Settings) -> bool:
    names = parquet.columns(source)
    return names is not None and names >= MARKS and "response" not in names


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    table = parquet.checked(source, settings)
    rewards = reward_columns(table.schema)
    provenance = {"reward": REWARD_RULE} if rewards else {}
    yield Header(raw={"framework": "trl", "reward_functions": rewards, "provenance": provenance})
    if rewards:
        yield _weights(rewards)
    named = _STEP.search(source.name)
    for number, fields in parquet.rows(table, source):
        item = _rollout(number, fields, rewards, notes)
        if isinstance(item, Rollout) and item.step is None and named:
            item.step, item.derived["step"] = int(named[1]), "derived:file name"
        yield from notes.drain()
        yield item
    yield from notes.summary()


def reward_columns(schema: pa.Schema) -> list[str]:
    """The double columns that follow the completion: TRL writes its reward functions there, before what users
    log.
    """
    names: list[str] = []
    for field in schema:
        if field.name in FIXED:
            continue
        if not pa.types.is_floating(field.type):
            break
        names.append(field.name)
    return names


def _weights(rewards: list[str]) -> Problem:
    message = (
        f"the file has no total reward: it is the sum of {', '.join(rewards)} with weights 1. "
        "Where the trainer used other reward_weights, only the components are right."
    )
    return Problem(message, "reward_derived", "info", None, "reward")


def _rollout(row: int, fields: dict[str, Any], rewards: list[str], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    prompt, completion = (_messages(fields.get(name)) for name in ("prompt", "completion"))
    prompts.set_prompt(record, prompt, notes)
    if completion is None or not prompts.set_response(record, completion, notes):
        return Problem(f"row {row}: no completion; the row was not taken", "no_response", "error", row)
    record.step = scalars.integer(row, "step", fields.get("step"), notes)
    record.advantage = scalars.number(row, "advantage", fields.get("advantage"), notes)
    if rewards:
        components = {name: fields.get(name) for name in rewards}
        record.reward_components = {
            name: scalars.number(row, name, components[name], notes) for name in rewards
        }
        scored = [
            value for value in record.reward_components.values() if value is not None and value == value
        ]
        if scored:
            record.reward = sum(scored)
            record.derived["reward"] = REWARD_RULE
    record.extra = {name: value for name, value in fields.items() if name not in (*FIXED, *rewards)}
    return record


def _messages(value: Any) -> Any:
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


FORMAT = Format("trl-parquet", "TRL completions, Parquet", sniff, read, groups="adjacent")
