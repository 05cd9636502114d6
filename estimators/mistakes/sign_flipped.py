"""The finished advantages with the other sign."""

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
    if factor is None or factor >= 0:
        return None
    if abs(factor + 1) < 1e-4:
        return "sign_flipped", "all have the other sign", -1.0, 0.0
    if distinct(computed) < 3:
        return None
    text = f"all were multiplied by {shown(factor)}, which also turns their sign"
    return f"sign_flipped:{shown(-factor)}", text, factor, 0.0


MISTAKE = Mistake("sign_flipped", "All advantages have the other sign.", variants)
