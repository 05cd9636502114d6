"""Fields of one canonical row (schema `rollout-batch`) to a `Rollout`, whatever file they were read from."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import prompts, scalars, token_arrays
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS, Problem, Rollout

FLOATS = ("reward", "advantage", "reward_baseline", "bootstrap_value")
INTEGERS = ("step", "sample_index", "policy_version", "segment", "rank", "micro_batch")
TEXTS = ("split", "sample_id", "data_source", "ground_truth", "finish_reason", "rollout_id")
BOOLEANS = ("truncated", "terminated")
SCALARS: dict[str, Callable[[int, str, Any, Notes], Any]] = {
    **dict.fromkeys(FLOATS, scalars.number),
    **dict.fromkeys(INTEGERS, scalars.integer),
    **dict.fromkeys(TEXTS, scalars.text),
    **dict.fromkeys(BOOLEANS, scalars.boolean),
}
OTHERS = (
    "group_id",
    "uid",
    "prompt",
    "response",
    "messages",
    "response_tokens",
    "reward_components",
    "extra",
)
FIELDS = frozenset(
    (*FLOATS, *INTEGERS, *TEXTS, *BOOLEANS, *OTHERS, *TOKEN_FIELDS, PROMPT_FIELD, "_nonfinite")
)

PER_TOKEN = frozenset((*TOKEN_FIELDS, PROMPT_FIELD, "response_tokens"))

NO_RESPONSE = "no response or response_ids"


def rollout(row: int, fields: dict[str, Any], alignment: str | None, notes: Notes) -> Rollout | Problem:
    """The row as stored, its problems said to `notes`; or the one error that rejects it.

    `alignment` is the file's: with "sequence", per-token arrays may cover prompt and response; the prompt's
    part is left out.
    """
    record = Rollout(row)
    if (listing := fields.get("_nonfinite")) is not None:
        token_arrays.fill_nonfinite(row, fields, listing, notes)
    prompts.set_prompt(record, fields.get("prompt"), notes)
    response = fields.get("response")
    if not prompts.set_response(record, response, notes):
        message = (
            f"row {row}: response is {a_kind(response)}, not text or chat messages; the row was not taken"
        )
        return Problem(message, "bad_response", "error", row, "response")
    _tokens(record, fields, alignment, notes)
    if record.response is None and record.response_tokens is not None:
        record.response = "".join(record.response_tokens)
        record.derived["response"] = "derived:join(response_tokens)"
    recorded = fields.get("response_ids") is not None and record.length is not None
    if record.response is None and not recorded:
        return Problem(f"row {row}: {NO_RESPONSE}; the row was not taken", "no_response", "error", row)
    _scalars(record, fields, notes)
    _group(record, fields)
    _rest(record, fields, notes)
    return record


def _tokens(record: Rollout, fields: dict[str, Any], alignment: str | None, notes: Notes) -> None:
    if PER_TOKEN.isdisjoint(fields):
        return
    arrays: dict[str, NDArray[Any]] = {}
    for name in (*TOKEN_FIELDS, PROMPT_FIELD):
        value = fields.get(name)
        if value is not None and (array := token_arrays.read(record.row, name, value, notes)) is not None:
            arrays[name] = array
    record.prompt_ids = arrays.pop(PROMPT_FIELD, None)
    _fractional_mask(record.row, arrays, notes)
    if alignment == "sequence":
        _cut_prompt(record, arrays, notes)
    tokens = _token_texts(record.row, fields.get("response_tokens"), notes)
    record.tokens, record.response_tokens = token_arrays.same_length(record.row, arrays, tokens, notes)


def _fractional_mask(row: int, arrays: dict[str, NDArray[Any]], notes: Notes) -> None:
    mask = arrays.get(token_arrays.MASK)
    if mask is None or mask.dtype == np.uint8:
        return
    del arrays[token_arrays.MASK]
    if "loss_weight" in arrays:
        notes.warn(
            row,
            token_arrays.MASK,
            "fractional_mask",
            "response_mask holds fractions; left out, never rounded",
        )
        return
    arrays["loss_weight"] = mask
    message = (
        "response_mask holds fractions: kept as loss_weight, never rounded; the mask counts as not recorded"
    )
    notes.warn(row, token_arrays.MASK, "fractional_mask", message)


def _cut_prompt(record: Rollout, arrays: dict[str, NDArray[Any]], notes: Notes) -> None:
    """Arrays over prompt and response, which the header declared: the response's part of them."""
    ids = arrays.get(token_arrays.IDS)
    if ids is None or record.prompt_ids is None:
        return
    before, length = record.prompt_ids.shape[0], ids.shape[0]
    for name, array in arrays.items():
        if before and array.shape[0] == before + length:
            arrays[name] = array[before:]
            notes.tally(
                record.row,
                name,
                "sequence_aligned",
                f"{name} covers prompt and response: the prompt's part left out",
            )


def _token_texts(row: int, value: Any, notes: Notes) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, list) and set(map(type, value)) <= {str}:
        return value
    notes.warn(row, "response_tokens", "unusable_values", "response_tokens is not a list of texts; left out")
    return None


def _scalars(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    row = record.row
    for name in [name for name in SCALARS if name in fields]:
        if (value := fields[name]) is not None:
            setattr(record, name, SCALARS[name](row, name, value, notes))


def _group(record: Rollout, fields: dict[str, Any]) -> None:
    value = fields.get("group_id")
    if value is None:
        value = fields.get("uid")
    found = scalars.typed_id(value)
    if found is not None:
        record.group_id, kind = found
        if kind != "text":
            record.extra["group_id_type"] = kind


def _rest(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    messages = fields.get("messages")
    if messages is not None:
        if isinstance(messages, list):
            record.messages = messages
        else:
            record.extra["messages"] = messages
    components = fields.get("reward_components")
    if components is not None:
        record.reward_components = reward_components(record.row, components, notes)
    extra = fields.get("extra")
    if isinstance(extra, str):
        extra = _json_object(extra)
    if isinstance(extra, dict):
        record.extra.update(extra)
    elif extra is not None:
        record.extra["extra"] = extra
    for name in fields.keys() - FIELDS:
        value = fields[name]
        record.extra[name] = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _json_object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def reward_components(row: int, value: Any, notes: Notes) -> dict[str, float | None] | None:
    """Rewards by the name of their function; null where one does not apply. Parquet gives a list of pairs."""
    if isinstance(value, list) and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        value = dict(value)
    if not isinstance(value, dict):
        message = f"reward_components is {a_kind(value)}, not an object; left out"
        notes.warn(row, "reward_components", "unusable_values", message)
        return None
    found = {}
    for name, part in value.items():
        found[str(name)] = scalars.number(row, f"reward_components.{name}", part, notes)
    return found
