"""slime's train data (`--save-debug-train-data`): what the trainer made of the rollouts, {rollout_id}.pt.

Since August 2026 one file with a dict per sample (format_version 2); before, one file per rank with columns.
`rewards` is normalised by group already and kept aside; the reward is `raw_reward` at the sample's position.
There is no text and no group: send the rollout data of the same id with it, and the rows are joined.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from app.ingest import inert_rows, names, scalars, token_arrays
from app.ingest.notes import Notes
from app.ingest.pickle_looks import look
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

TOKENS = {
    "loss_masks": "response_mask", "rollout_log_probs": "rollout_log_probs", "log_probs": "old_log_probs",
    "ref_log_probs": "ref_log_probs", "values": "values", "advantages": "advantages", "returns": "returns",
    "kl": "kl", "entropy": "entropies",
}  # fmt: skip
MAPPED = frozenset((
    *TOKENS, "tokens", "total_lengths", "response_lengths", "sample_index", "sample_indices", "truncated",
    "rollout_position", "data_parallel_rank", "rewards", "raw_reward",
))  # fmt: skip
_NAME = re.compile(r"(?:^|/)(\d{1,18})(?:_\d+)?\.pt$")


def sniff(source: Source, settings: Settings) -> bool:
    found = look(source)
    if found is None or found.root != "EMPTY_DICT":
        return False
    new = {"format_version", "samples", "rollout_id"} <= set(found.texts)
    return new or {"rollout_id", "rollout_data"} <= set(found.texts[:4])


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    with inert_rows.opened(source, settings) as rows:
        inert_rows.expect(rows, ("samples", "shard"))
        others = dict(rows.others)
        rewards = others.pop("raw_reward", None)
        yield Header(raw={"framework": "slime", **others})
        yield from inert_rows.said(rows)
        named = _NAME.search(source.name)
        for number, fields in rows:
            item = _rollout(number, fields, others, notes)
            if isinstance(item, Rollout):
                _set_reward(item, fields, rewards, notes)
                names.fill(item, (int(named[1]), names.FILE) if named else None)
            yield from notes.drain()
            yield item
    yield from notes.summary()


def _rollout(row: int, fields: dict[str, Any], others: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    length = scalars.integer(row, "response_lengths", fields.get("response_lengths"), notes)
    ids = fields.get("tokens")
    whole = None if ids is None else token_arrays.read(row, "response_ids", ids, notes)
    if whole is None or length is None or not 0 <= length <= whole.shape[0]:
        message = f"row {row}: its tokens and response_lengths do not fit; the row was not taken"
        return Problem(message, "no_response", "error", row, "tokens")
    total = scalars.integer(row, "total_lengths", fields.get("total_lengths"), notes)
    if total is not None and total != whole.shape[0]:
        message = f"total_lengths is {total}, but there are {whole.shape[0]} tokens (a slice of a rank?)"
        notes.warn(row, "response_ids", "length_mismatch", message)
    before = whole.shape[0] - length
    record.prompt_ids = whole[:before] if before else None
    arrays = {"response_ids": whole[before:]}
    for name, canonical in TOKENS.items():
        value = fields.get(name)
        if value is not None and (array := token_arrays.read(row, canonical, value, notes)) is not None:
            fractions = canonical == token_arrays.MASK and array.dtype != np.uint8
            arrays["loss_weight" if fractions else canonical] = array
    record.tokens, _ = token_arrays.same_length(row, arrays, None, notes)
    record.step = scalars.integer(row, "step", others.get("rollout_id"), notes)
    index = fields.get("sample_index", fields.get("sample_indices"))
    record.sample_index = scalars.integer(row, "sample_index", index, notes)
    rank = fields.get("data_parallel_rank", others.get("rank"))
    record.rank = scalars.integer(row, "rank", rank, notes)
    if fields.get("truncated") in (0, 1):
        record.truncated = bool(fields["truncated"])
    for name, value in fields.items():
        if name not in MAPPED and value is not None:
            record.extra[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return record


def _set_reward(record: Rollout, fields: dict[str, Any], rewards: Any, notes: Notes) -> None:
    """The reward before normalisation: of this row, or of its position in the whole rollout."""
    if "rewards" in fields:
        record.extra["normalised_reward"] = fields["rewards"]
    position = fields.get("rollout_position")
    position = record.sample_index if position is None else position
    if "raw_reward" in fields:
        record.reward = scalars.number(record.row, "reward", fields["raw_reward"], notes)
    elif isinstance(rewards, list) and type(position) is int and 0 <= position < len(rewards):
        record.reward = scalars.number(record.row, "reward", rewards[position], notes)
        if "rollout_position" not in fields:
            record.derived["reward"] = "derived:raw_reward at the sample's index"
    elif rewards is not None:
        message = "raw_reward has no entry for this row: no reward"
        notes.tally(record.row, "reward", "no_reward", message, "warning")


_ROLLOUTS = "`--save-debug-rollout-data PATH/{rollout_id}.pt`, sent with it: the rows are joined"
ABOUT = About(
    setting="`--save-debug-train-data PATH/{rollout_id}.pt` or `--dump-details DIR`",
    files="`train_data/{rollout_id}.pt`; before August 2026 `{rollout_id}_{rank}.pt`",
    recorded=(
        "step", "sample_index", "prompt_ids", "response_ids", "response_mask", "advantages", "returns",
        "old_log_probs", "rank",
    ),
    sometimes=("reward",
        "rollout_log_probs", "ref_log_probs", "values", "kl", "entropies", "truncated", "loss_weight",
    ),
    derived={
        "group_id": "identical prompt ids, until rollout data are sent with it", "step": "file name",
        "reward": "raw_reward at the sample's index (before August 2026)",
    },
    absent={
        name: _ROLLOUTS
        for name in (
            "prompt", "response", "reward_components", "data_source", "ground_truth", "finish_reason",
        )
    },
)  # fmt: skip
FORMAT = Format("slime-train", "slime train data, .pt", sniff, read, about=ABOUT)
