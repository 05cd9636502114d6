"""Rollouts taken out before the rows are grouped by place, so that later ones move into another group."""

from collections.abc import Iterator

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, in_file_order, regrouped, same_partition
from estimators.mistakes.stride_grouping import plausible
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    rejected = (batch.unmasked == 0) | torch.isnan(batch.scores)
    if batch.truncated is not None and bool(batch.truncated.any()):
        yield from _without("truncated rollouts", batch.truncated, batch, hints, ":truncated")
    if bool(rejected.any()):
        yield from _without("rejected rollouts", rejected, batch, hints, "")


def _without(what: str, gone: Tensor, batch: Batch, hints: Hints, detail: str) -> Iterator[Input]:
    place = in_file_order(batch)
    order = torch.argsort(place)
    kept = order[~gone[order]]
    for size in plausible(batch, hints):
        # Those taken out get groups of their own.
        group = torch.arange(batch.rollouts, device=place.device) + batch.rollouts
        group[kept] = torch.arange(kept.shape[0], device=place.device) // size
        dense = torch.unique(group, return_inverse=True)[1]
        if not same_partition(dense, batch.group):
            text = f"{what} were taken out first and the rest grouped {size} at a time, so that rows moved on"
            yield regrouped(f"rejected_shift:{size}{detail}", text, dense)


MISTAKE = Mistake(
    "rejected_shift",
    "Rollouts are taken out before the rows are grouped by place, and later rows slide into other groups.",
    variants,
)
