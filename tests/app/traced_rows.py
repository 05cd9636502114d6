"""Packed batches with recorded advantages as canonical rows, for what was made in the estimators' tests."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from torch import Tensor

from estimators import Batch
from estimators.batch import TOKEN_FIELDS
from estimators.reconcile import Hints

Row = dict[str, Any]
PAD = 7
NUMBERS = ("reward_baseline", "bootstrap_value", "rank", "micro_batch", "segment")


def rows_of(batch: Batch, advantages: Tensor, hints: Hints) -> list[Row]:
    """A row per rollout, in the order of the file. `hints`: whose prompts are equal, what is padding."""
    prompt = batch.group if hints.prompt is None else hints.prompt
    rows: list[Row] = []
    for i, (first, last) in enumerate(pairwise(batch.offsets.tolist())):
        padded = [False] * (last - first) if hints.padding is None else hints.padding[first:last].tolist()
        row: Row = {
            "step": 1,
            "group_id": f"g{int(batch.group[i])}",
            "prompt": f"question {int(prompt[i])}",
            "response_ids": [PAD if pad else 20 + t for t, pad in enumerate(padded)],
            "response_mask": batch.response_mask[first:last].int().tolist(),
            "advantages": advantages[first:last].tolist(),
        }
        rows.append(row | dict(_columns(batch, i)) | dict(_tokens(batch, first, last)))
    return rows


def _columns(batch: Batch, i: int) -> Iterator[tuple[str, Any]]:
    if float(batch.scores[i]) == float(batch.scores[i]):
        yield "reward", float(batch.scores[i])
    if batch.components:
        yield "reward_components", {name: float(part[i]) for name, part in batch.components.items()}
    for name in NUMBERS:
        values: Tensor | None = getattr(batch, name)
        if values is not None:
            yield name, values[i].item()
    if batch.rollout_id is not None:
        yield "rollout_id", f"r{int(batch.rollout_id[i])}"


def _tokens(batch: Batch, first: int, last: int) -> Iterator[tuple[str, list[float]]]:
    for name in TOKEN_FIELDS:
        values: Tensor | None = getattr(batch, name)
        if values is not None and name not in ("next_values",):
            yield name, values[first:last].tolist()
