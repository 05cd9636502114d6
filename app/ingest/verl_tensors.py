"""verl's batches as tensors: prompts padded on the left, responses on the right, or both jagged.

The attention mask says what is padding; `response_mask` is 1 where the policy wrote, 0 at tools and padding.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import prompts, scalars, token_arrays
from app.ingest.notes import Notes
from app.ingest.record import Problem, Rollout

TOKENS = {
    "response_mask": "response_mask", "rollout_log_probs": "rollout_log_probs",
    "old_log_probs": "old_log_probs", "ref_log_prob": "ref_log_probs", "ref_log_probs": "ref_log_probs",
    "token_level_scores": "token_level_scores", "token_level_rewards": "token_level_rewards",
    "values": "values", "advantages": "advantages", "returns": "returns", "entropys": "entropies",
    "entropies": "entropies", "rollout_is_weights": "rollout_is_weights",
    "sum_pi_squared": "sum_pi_squared",
}  # fmt: skip
#: Tensors that follow from the others.
FOLLOWS = ("input_ids", "attention_mask", "position_ids", "prompts", "responses", "rm_scores")
MAPPED = frozenset((*TOKENS, *FOLLOWS, "uid", "data_source", "raw_prompt", "reward_model", "extra_info"))


def rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    """One row of the batch."""
    responses = fields.get("responses")
    if not isinstance(responses, np.ndarray) or responses.ndim != 1:
        message = f"row {row}: responses is no row of token ids; the row was not taken"
        return Problem(message, "no_response", "error", row, "responses")
    record = Rollout(row)
    keep = _set_ids(record, fields, responses, notes)
    _set_arrays(record, fields, keep, notes)
    _set_reward(record)
    _set_texts(record, fields, notes)
    _set_extra(record, fields, responses.shape[0], notes)
    return record


def _set_ids(
    record: Rollout, fields: dict[str, Any], responses: NDArray[Any], notes: Notes
) -> NDArray[np.bool_]:
    """The ids of prompt and response; which positions of the response are tokens."""
    prompt = fields.get("prompts")
    prompt = prompt if isinstance(prompt, np.ndarray) and prompt.ndim == 1 else None
    before = 0 if prompt is None else prompt.shape[0]
    attention = fields.get("attention_mask")
    if isinstance(attention, np.ndarray) and attention.shape == (before + responses.shape[0],):
        real = attention != 0
    else:
        real = np.ones(before + responses.shape[0], np.bool_)
        if isinstance(fields.get("response_mask"), np.ndarray) and "attention_mask" not in fields:
            real[before:] = _up_to_last(fields["response_mask"], responses.shape[0])
            message = "no attention_mask: the response ends at its last trained token"
            notes.tally(record.row, "response_ids", "no_attention_mask", message, "warning")
        elif attention is not None:
            message = "attention_mask does not fit prompts and responses: padding cannot be told from tokens"
            notes.tally(record.row, "response_ids", "length_mismatch", message, "warning")
    if prompt is not None:
        record.prompt_ids = token_arrays.read(record.row, "prompt_ids", prompt[real[:before]], notes)
    ids = token_arrays.read(record.row, "response_ids", responses[real[before:]], notes)
    if ids is not None:
        record.tokens["response_ids"] = ids
    kept: NDArray[np.bool_] = real[before:]
    return kept


def _up_to_last(mask: NDArray[Any], size: int) -> NDArray[np.bool_]:
    trained = np.flatnonzero(mask)
    end = int(trained[-1]) + 1 if trained.size else 0
    return np.asarray(np.arange(size) < end)


def _set_arrays(record: Rollout, fields: dict[str, Any], keep: NDArray[np.bool_], notes: Notes) -> None:
    named = {**{name: canonical for name, canonical in TOKENS.items() if name in fields}}
    if "token_level_scores" not in fields and "rm_scores" in fields:
        named["rm_scores"] = "token_level_scores"
    for name, canonical in named.items():
        value = fields[name]
        if not isinstance(value, np.ndarray) or value.shape != keep.shape:
            shape = list(value.shape) if isinstance(value, np.ndarray) else "no array"
            message = f"{name} has the shape {shape}, responses {list(keep.shape)}; left out of this row"
            notes.warn(record.row, name, "length_mismatch", message)
            continue
        array = token_arrays.read(record.row, canonical, value[keep], notes)
        if array is None:
            continue
        if canonical == token_arrays.MASK and array.dtype != np.uint8:
            canonical = "loss_weight"
        record.tokens[canonical] = array


def _set_reward(record: Rollout) -> None:
    """The sum of the scores, before any KL penalty."""
    scores = record.tokens.get("token_level_scores")
    if scores is not None:
        record.reward = float(scores.sum(dtype=np.float64))
        record.derived["reward"] = "derived:sum(token_level_scores)"


def _set_texts(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    row = record.row
    if found := scalars.typed_id(fields.get("uid")):
        record.group_id, kind = found
        if kind != "text":
            record.extra["group_id_type"] = kind
    record.data_source = scalars.text(row, "data_source", fields.get("data_source"), notes)
    prompts.set_prompt(record, fields.get("raw_prompt"), notes)
    rule = fields.get("reward_model")
    if isinstance(rule, dict):
        record.ground_truth = scalars.text(row, "ground_truth", rule.get("ground_truth"), notes)
        if rest := {name: value for name, value in rule.items() if name != "ground_truth"}:
            record.extra["reward_model"] = rest
    info = fields.get("extra_info")
    if isinstance(info, dict):
        record.extra["extra_info"] = info
        if isinstance(info.get("split"), str):
            record.split, record.derived["split"] = info["split"], "derived:extra_info.split"


def _set_extra(record: Rollout, fields: dict[str, Any], width: int, notes: Notes) -> None:
    for name, value in fields.items():
        if name in MAPPED:
            continue
        if not isinstance(value, np.ndarray):
            record.extra[name] = value
        elif value.size <= 64 and value.shape != (width,):
            record.extra[name] = value.tolist()
        else:
            message = f"{name} is no field that is known; left out"
            notes.tally(record.row, name, "unknown_array", message)
