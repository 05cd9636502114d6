"""A constant added to the finished advantages."""

from collections.abc import Iterator

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Mistake, Rescale
from estimators.mistakes.rescaling import distinct, shown
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Rescale]:
    yield Rescale(_added)
    yield Rescale(_both)


def _added(computed: Tensor, recorded: Tensor) -> tuple[str, str, float, float] | None:
    if distinct(computed) < 3:
        return None
    offset = float((recorded - computed).median())
    if offset == 0:
        return None
    return f"offset:{shown(offset)}", f"{shown(offset)} was added to all", 1.0, offset


def _both(computed: Tensor, recorded: Tensor) -> tuple[str, str, float, float] | None:
    if distinct(computed) < 5:
        return None
    centre = computed.mean()
    spread = (computed - centre).square().sum()
    if not bool(torch.isfinite(spread)) or float(spread) == 0:
        return None
    factor = float(((computed - centre) * recorded).sum() / spread)
    offset = float(recorded.mean() - factor * centre)
    if factor == 0 or abs(factor - 1) < 1e-6:
        return None
    label = f"scaled:{shown(factor)},offset:{shown(offset)}"
    return label, f"all were multiplied by {shown(factor)}, then {shown(offset)} was added", factor, offset


MISTAKE = Mistake("offset", "One constant is added to all advantages.", variants)
