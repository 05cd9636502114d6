"""Another ε than the convention's, among those in use."""

from collections.abc import Iterator
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Whiten, with_params
from estimators.reconciliation import Hints
from estimators.shape import Shape
from estimators.whitening import Affine, Whitening

IN_USE = (1e-4, 1e-5, 1e-6, 1e-8, 1e-9, 0.0, 1e-3, 1e-12)


def variants(batch: Batch, hints: Hints) -> Iterator[Input | Whiten]:
    for eps in IN_USE:
        yield with_params(f"wrong_eps:{eps:g}", f"ε was {eps:g}", epsilon=eps)
        yield _whitening(f"wrong_eps:{eps:g}", f"ε of the whitening was {eps:g}", eps)


def _whitening(label: str, text: str, eps: float) -> Whiten:
    def affine(shape: Shape, own: Whitening) -> Affine | None:
        if own.scope == "none" or own.eps == eps:
            return None
        return shape.whitened(replace(own, eps=eps))

    return Whiten(label, text, affine)


MISTAKE = Mistake("wrong_eps", "ε beside the standard deviation is another one.", variants)
