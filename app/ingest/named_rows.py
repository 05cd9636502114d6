"""Rows whose fields have names that people use: to canonical names where a name has one meaning only.

For containers that say nothing of a framework: dicts of tensors, Arrow tables, memory-mapped folders.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from app.ingest import canonical, verl_tensors
from app.ingest.notes import Notes
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS, Problem, Rollout

#: Another name -> the canonical one, where the row has not that one itself.
IDS = {
    "tokens": "response_ids", "token_ids": "response_ids", "responses": "response_ids",
    "completion_ids": "response_ids", "prompts": "prompt_ids", "prompt_tokens": "prompt_ids",
}  # fmt: skip
ALIASES = IDS | {
    "completion": "response", "output": "response", "answer_text": "response",
    "loss_mask": "response_mask", "completion_mask": "response_mask", "action_mask": "response_mask",
    "ref_log_prob": "ref_log_probs", "ref_logprobs": "ref_log_probs", "rollout_logprobs": "rollout_log_probs",
    "old_logprobs": "old_log_probs", "entropy": "entropies", "rewards": "reward", "score": "reward",
    "group": "group_id", "group_index": "group_id", "global_step": "step", "label": "ground_truth",
    "answer": "ground_truth", "target": "ground_truth",
}  # fmt: skip
PER_TOKEN = frozenset((*TOKEN_FIELDS, PROMPT_FIELD))
LENGTHS = ("response_lengths", "response_length")
#: What a row must have one of to be a rollout.
ANSWERS = frozenset(("response", "response_ids", "response_tokens"))
#: Names that alone make it likely that a container holds rollouts.
MARKS = frozenset((*ANSWERS, "responses", "completion", "completion_ids", "tokens", "output"))
#: What tensors of one's own may hold beside the responses.
SOMETIMES = (
    "group_id", "prompt_ids", "response_mask", "advantages", "returns", "values", "reward", "advantage",
    "rollout_log_probs", "old_log_probs", "ref_log_probs", "token_level_rewards", "token_level_scores",
    "entropies", "prompt", "response", "ground_truth", "data_source",
)  # fmt: skip


def is_rollouts(names: Iterable[str]) -> bool:
    """Whether columns of these names can be rollouts: an answer, and something said of it."""
    found = set(names)
    said = (canonical.FIELDS | ALIASES.keys()) - MARKS
    return bool(found & MARKS) and bool(found & said)


def rollout(row: int, fields: dict[str, Any], notes: Notes, padded: bool = False) -> Rollout | Problem:
    """One row of such a container. `padded`: its arrays may be longer than the response."""
    if {"prompts", "responses", "attention_mask"} <= fields.keys() and _is_array(fields["responses"]):
        item = verl_tensors.rollout(row, fields, notes)
        if isinstance(item, Rollout) and item.reward is None:
            _set_reward(item, fields)
        return item
    named = _named(row, fields, notes)
    _cut(row, named, notes, padded)
    return canonical.rollout(row, named, None, notes)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1


def _named(row: int, fields: dict[str, Any], notes: Notes) -> dict[str, Any]:
    named = dict(fields)
    for name, canonical_name in ALIASES.items():
        if name not in named:
            continue
        value = named[name]
        if name in IDS and isinstance(value, str):
            canonical_name = canonical_name.removesuffix("_ids")
        if canonical_name in named or not _fits(canonical_name, value):
            continue
        named[canonical_name] = named.pop(name)
        message = f"{name} is read as {canonical_name}"
        notes.tally(row, canonical_name, "renamed", message)
    return named


def _fits(name: str, value: Any) -> bool:
    """Whether a value is of the kind that the canonical field is."""
    many = isinstance(value, (list, np.ndarray)) and np.ndim(value) == 1
    if name in PER_TOKEN:
        return many
    return not many if name in ("reward", "step", "group_id") else True


def _cut(row: int, named: dict[str, Any], notes: Notes, padded: bool) -> None:
    """Padding on the right, where the row says how long it is; else every position counts as a token."""
    length = next((named.pop(name) for name in LENGTHS if name in named), None)
    arrays = {name: named[name] for name in TOKEN_FIELDS if _is_array(named.get(name))}
    if isinstance(length, (int, np.integer)) and length >= 0:
        for name, array in arrays.items():
            if array.shape[0] >= length:
                named[name] = array[: int(length)]
    elif padded and "response_ids" in arrays and "response_mask" not in arrays:
        message = "neither lengths nor a mask: every position is taken as a token, padding included"
        notes.tally(row, "response_ids", "no_lengths", message, "warning")
    before = named.pop("prompt_lengths", named.pop("prompt_length", None))
    prompt = named.get(PROMPT_FIELD)
    if isinstance(before, int) and isinstance(prompt, np.ndarray) and 0 <= before <= prompt.shape[0]:
        named[PROMPT_FIELD] = prompt[:before]


def _set_reward(record: Rollout, fields: dict[str, Any]) -> None:
    for name in ("reward", "rewards", "score"):
        value = fields.get(name)
        if isinstance(value, (int, float)):
            record.reward = float(value)
            record.extra.pop(name, None)
            return
        if isinstance(value, np.ndarray) and value.size == 1:
            record.reward = float(value.reshape(-1)[0])
            record.extra.pop(name, None)
            return
