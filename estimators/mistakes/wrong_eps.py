"""Another ε than the convention's: one of those in use, or whichever the numbers of several groups agree on.

With ε beside the standard deviation σ of a group, A = (r − mean)/(σ + ε), so 1/A is linear in ε.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Solve, Whiten, with_params
from estimators.reconciliation import Hints
from estimators.shape import Shape
from estimators.whitening import Affine, Whitening

IN_USE = (1e-4, 1e-5, 1e-6, 1e-8, 1e-9, 0.0, 1e-3, 1e-12)
#: How much standard deviations of groups must differ to tell ε from a factor, and how far ε may scatter.
_APART, _SCATTER = 1e-2, 0.1
_DIGITS = (1, 2, 3, 6)


def variants(batch: Batch, hints: Hints) -> Iterator[Input | Whiten | Solve]:
    for eps in IN_USE:
        yield _used(eps)
        yield _whitening(f"wrong_eps:{eps:g}", f"ε of the whitening was {eps:g}", eps)
    yield Solve("epsilon", _solved)


def _used(eps: float) -> Input:
    return with_params(f"wrong_eps:{eps:g}", f"ε was {eps:g}", epsilon=eps)


def _solved(zero: Tensor, one: Tensor, recorded: Tensor) -> Input | None:
    """The mistake of the ε that most rollouts agree on, with as few digits as they allow."""
    inverse, more, wanted = 1 / zero.double(), 1 / one.double(), 1 / recorded.double()
    std, eps = inverse / (more - inverse), (wanted - inverse) / (more - inverse)
    told = torch.isfinite(std) & torch.isfinite(eps)
    if int(told.sum()) < 2:
        return None
    std, eps = std[told], eps[told]
    if float(std.max() - std.min()) <= _APART * float(std.abs().max()):
        return None
    value = float(eps.median())
    scatter = float((eps - value).abs().median())
    if value <= 0 or scatter > _SCATTER * value:
        return None
    rounded = (float(f"{value:.{digits}g}") for digits in _DIGITS)
    found = next((each for each in rounded if abs(each - value) <= 2 * scatter + 1e-6 * value), value)
    return None if found in IN_USE else _used(found)


def _whitening(label: str, text: str, eps: float) -> Whiten:
    def affine(shape: Shape, own: Whitening) -> Affine | None:
        if own.scope == "none" or own.eps == eps:
            return None
        return shape.whitened(replace(own, eps=eps))

    return Whiten(label, text, affine)


MISTAKE = Mistake("wrong_eps", "ε beside the standard deviation is another one.", variants)
