"""The finished advantages times a constant."""

from collections.abc import Iterator

from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Mistake, Rescale
from estimators.mistakes.rescaling import distinct, proportion, shown
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Rescale]:
    yield Rescale(_fit)


def _fit(computed: Tensor, recorded: Tensor) -> tuple[str, str, float, float] | None:
    factor = proportion(computed, recorded)
    if factor is None or abs(factor - 1) < 1e-9 or factor <= 0 or distinct(computed) < 3:
        return None
    return f"scaled:{shown(factor)}", f"all were multiplied by {shown(factor)}", factor, 0.0


MISTAKE = Mistake("scaled", "All advantages are multiplied by one constant.", variants)
