"""Rows of TRL's kind: prompt, completion, a column for each reward function, one advantage for the sample.

TRL writes them to Parquet and to tables, ms-swift to completions.jsonl. There is no total reward (the weights
are in the trainer's configuration): it is the sum of the components with weights 1, named as derived.
"""

from collections.abc import Collection, Sequence
from typing import Any

from app.ingest import prompts, scalars
from app.ingest.notes import Notes
from app.ingest.record import Problem, Rollout

REWARD_RULE = "derived:sum(components, weights 1)"
FIXED = frozenset(("step", "gen_step", "global_step", "prompt", "completion", "advantage", "advantages"))


def reward_names(columns: Sequence[str], row: dict[str, Any], known: Collection[str] = FIXED) -> list[str]:
    """The columns of numbers that follow the completion: trainers write their reward functions there, before
    what users log.
    """
    names: list[str] = []
    for name in columns:
        if name in known:
            continue
        value = row.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            break
        names.append(name)
    return names


def said(rewards: Sequence[str]) -> Problem:
    """That the total reward is a sum with weights 1."""
    message = (
        f"the file has no total reward: it is the sum of {', '.join(rewards)} with weights 1. "
        "Where the trainer used other reward_weights, only the components are right."
    )
    return Problem(message, "reward_derived", "info", None, "reward")


def rollout(
    row: int, fields: dict[str, Any], rewards: Sequence[str], notes: Notes, nan_is_null: bool = True
) -> Rollout | Problem:
    """One sample. A reward that is null or NaN is no part of the sum; where the file knows no null
    (`nan_is_null`), NaN says that the function gave no reward.
    """
    record = Rollout(row)
    prompts.set_prompt(record, fields.get("prompt"), notes)
    completion = fields.get("completion")
    if completion is None or not prompts.set_response(record, completion, notes):
        return Problem(f"row {row}: no completion; the row was not taken", "no_response", "error", row)
    step = next((fields[name] for name in ("step", "gen_step", "global_step") if name in fields), None)
    record.step = scalars.integer(row, "step", step, notes)
    advantage = fields.get("advantage", fields.get("advantages"))
    record.advantage = scalars.number(row, "advantage", advantage, notes)
    if rewards:
        part = _part if nan_is_null else scalars.number
        record.reward_components = {name: part(row, name, fields.get(name), notes) for name in rewards}
        scored = [x for x in record.reward_components.values() if x is not None and x == x]
        if scored:
            record.reward, record.derived["reward"] = sum(scored), REWARD_RULE
    record.extra = {
        name: value for name, value in fields.items() if name not in FIXED and name not in rewards
    }
    return record


def _part(row: int, name: str, value: Any, notes: Notes) -> float | None:
    value = scalars.plain(value)
    if isinstance(value, float) and value != value:
        notes.tally(row, name, "no_reward", f"{name} is NaN: its function gave no reward")
        return None
    return scalars.number(row, name, value, notes)
