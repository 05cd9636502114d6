"""Logging boards, a row a sample with its tokens' texts: RL Logging Board (OpenRLHF of early 2025), and the
board that ROLL writes (`save_logging_board_dir`).

`logprobs` are the trainer's before the update. RL Logging Board has no mask: all tokens count, named as
derived. ROLL's token texts are vocabulary pieces and include padding: arrays are cut to the length of
`logprobs`; its `values` are a copy of the token rewards and no critic's. Neither has a group id: groups are
identical prompts of a step.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import jsonl, prompts, scalars, token_arrays
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("response_tokens", "logprobs", "token_rewards"))
ROLL_MARKS = frozenset(("new_response_mask", "log_probs2", "old_log_probs2_entropy"))
ARRAYS = {
    "logprobs": "old_log_probs",
    "ref_logprobs": "ref_log_probs",
    "values": "values",
    "token_rewards": "token_level_rewards",
    "new_response_mask": "response_mask",
    "old_log_probs2_entropy": "entropies",
}
LISTS = {name: "i" if name == "new_response_mask" else "d" for name in ARRAYS}
MAPPED = (*ARRAYS, "prompt", "response", "response_tokens", "reward", "step")
ALL_ONE = "derived:all 1"


def sniff_openrlhf(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and not row.keys() & ROLL_MARKS


def sniff_roll(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and bool(row.keys() & ROLL_MARKS)


def read_openrlhf(source: Source, settings: Settings) -> Iterator[Item]:
    yield from jsonl.read(source, settings, _openrlhf, Header(raw={"framework": "openrlhf"}), LISTS)


def read_roll(source: Source, settings: Settings) -> Iterator[Item]:
    yield from jsonl.read(source, settings, _roll, Header(raw={"framework": "roll"}), LISTS)


def _openrlhf(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
    arrays = _arrays(row, fields, notes)
    tokens = _texts(row, fields, notes)
    record = _rollout(row, fields, arrays, tokens, notes)
    if isinstance(record, Rollout) and record.length is not None and "response_mask" not in record.tokens:
        record.tokens["response_mask"] = np.ones(record.length, dtype=np.uint8)
        record.derived["response_mask"] = ALL_ONE
    return record


def _roll(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
    arrays = _arrays(row, fields, notes)
    tokens = _texts(row, fields, notes)
    values, rewards = arrays.get("values"), arrays.get("token_level_rewards")
    if values is not None and rewards is not None and np.array_equal(values, rewards, equal_nan=True):
        del arrays["values"]
        notes.tally(
            row, "values", "values_copied", "values are a copy of token_rewards, not a critic's; left out"
        )
    log_probs = arrays.get("old_log_probs")
    if log_probs is not None:
        size = log_probs.shape[0]
        longer = [name for name, array in arrays.items() if array.shape[0] > size]
        if longer or len(tokens or ()) > size:
            message = "token texts and arrays include padding: cut to the length of logprobs"
            notes.tally(row, None, "padding_cut", message)
        arrays = {name: array[:size] for name, array in arrays.items()}
        tokens = None if tokens is None else tokens[:size]
    return _rollout(row, fields, arrays, tokens, notes)


def _arrays(row: int, fields: dict[str, Any], notes: Notes) -> dict[str, NDArray[Any]]:
    found = {}
    for name, canonical in ARRAYS.items():
        value = fields.get(name)
        if value is not None and (array := token_arrays.read(row, canonical, value, notes)) is not None:
            found[canonical] = array
    return found


def _texts(row: int, fields: dict[str, Any], notes: Notes) -> list[str] | None:
    value = fields.get("response_tokens")
    if value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    notes.warn(row, "response_tokens", "unusable_values", "response_tokens is not a list of texts; left out")
    return None


def _rollout(
    row: int, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], tokens: list[str] | None, notes: Notes
) -> Rollout | Problem:
    record = Rollout(row)
    prompts.set_prompt(record, fields.get("prompt"), notes)
    response = fields.get("response")
    if not prompts.set_response(record, response, notes):
        message = f"row {row}: response is {a_kind(response)}, not text; the row was not taken"
        return Problem(message, "bad_response", "error", row, "response")
    record.tokens, record.response_tokens = token_arrays.same_length(row, arrays, tokens, notes)
    if response is None:
        if record.response_tokens is None:
            return Problem(f"row {row}: no response; the row was not taken", "no_response", "error", row)
        record.response = "".join(record.response_tokens)
        record.derived["response"] = "derived:join(response_tokens)"
    record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
    record.step = scalars.integer(row, "step", fields.get("step"), notes)
    record.extra = {name: value for name, value in fields.items() if name not in MAPPED}
    return record


_RECORDED = (
    "step", "prompt", "response", "response_tokens", "old_log_probs", "ref_log_probs", "token_level_rewards",
    "reward",
)  # fmt: skip
_ABSENT = {
    name: ""
    for name in ("response_ids", "rollout_log_probs", "advantages", "returns", "ground_truth", "split")
}
FORMAT = Format(
    "rl-logging-board", "RL Logging Board rows, JSONL", sniff_openrlhf, read_openrlhf,
    about=About(
        setting="OpenRLHF of early 2025, and forks that still write it",
        files="`rollout_data_rank_{rank}_{n}.jsonl`",
        recorded=_RECORDED,
        sometimes=("values", "response_mask"),
        derived={"group_id": "identical prompts of a step", "response_mask": "all 1"},
        absent=_ABSENT | {"entropies": ""},
    ),
)  # fmt: skip
ROLL = Format(
    "roll-board", "ROLL logging board rows, JSONL", sniff_roll, read_roll,
    about=About(
        setting="`save_logging_board_dir` (end it with `/`)",
        files="`{dir}/data_{YYYYmmdd_HHMMSS}_{ms}.jsonl`",
        recorded=_RECORDED,
        sometimes=("values", "response_mask", "entropies"),
        derived={"group_id": "identical prompts of a step"},
        absent=_ABSENT,
    ),
)  # fmt: skip
