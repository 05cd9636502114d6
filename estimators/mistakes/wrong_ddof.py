"""The other standard deviation: divided by n where the convention says n − 1, or the other way round."""

from collections.abc import Iterator
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Whiten, with_params
from estimators.reconciliation import Hints
from estimators.shape import Shape
from estimators.whitening import Affine, Whitening


def variants(batch: Batch, hints: Hints) -> Iterator[Input | Whiten]:
    for ddof in (0, 1):
        name = "population" if ddof == 0 else "sample"
        text = f"divided by the {name} standard deviation (ddof {ddof})"
        yield with_params(f"wrong_ddof:{ddof}", text, ddof=ddof)
        yield _whitening(
            f"wrong_ddof:{ddof}", f"whitened with the {name} standard deviation (ddof {ddof})", ddof
        )


def _whitening(label: str, text: str, ddof: int) -> Whiten:
    def affine(shape: Shape, own: Whitening) -> Affine | None:
        if own.scope == "none" or own.ddof == ddof:
            return None
        return shape.whitened(replace(own, ddof=ddof))

    return Whiten(label, text, affine)


MISTAKE = Mistake("wrong_ddof", "The standard deviation has the other divisor, n or n − 1.", variants)
