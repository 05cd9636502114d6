"""Two sets of advantages of one batch against each other: ranks, signs, differences."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.chosen import Chosen, Floats, per_rollout
from app.figures.kept import columns_of
from app.figures.length_advantage import spearman
from storage.database import ReadSession
from storage.models import Batch

Ints = NDArray[np.int64]
#: A sign is 0 within this share of the largest size: what rounding leaves of a zero.
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Pair:
    """Both advantages of every rollout, `[B]` in the order of the batch's index; NaN where there is none.

    both      `[B]` has a number in each
    opposite  `[B]` negative in one and positive in the other
    """

    index: Ints
    reward: Floats
    a: Floats
    b: Floats
    both: NDArray[np.bool_]
    opposite: NDArray[np.bool_]

    @property
    def furthest(self) -> Ints:
        """`[B]` places, the largest difference first, those that lack a number last."""
        apart = np.nan_to_num(np.abs(self.a - self.b), nan=-1.0)
        return np.argsort(-apart, kind="stable")


def pair_of(session: ReadSession, batch: Batch, a: Chosen, b: Chosen) -> Pair:
    columns = columns_of(session, batch)
    order = np.argsort(columns.index)
    first, second = (per_rollout(session, batch, each, columns)[order] for each in (a, b))
    both = np.isfinite(first) & np.isfinite(second)
    opposite = both & (signs(first) * signs(second) < 0)
    return Pair(columns.index[order], columns.reward[order], first, second, both, opposite)


def largest(values: Floats) -> float:
    """Largest size among the finite numbers; 0 without any."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def signs(values: Floats, size: float | None = None) -> Ints:
    """−1, 0 or 1 each; NaN gives 0. `size`: the largest, where `values` are only some of the numbers."""
    known = np.nan_to_num(values)
    tiny = TINY * (largest(values) if size is None else size)
    return np.where(np.abs(known) <= tiny, 0, np.sign(known)).astype(np.int64)


def over_rollouts(pair: Pair) -> dict[str, Any]:
    """Of the rollouts that have both, each counting once with its mean."""
    a, b = pair.a[pair.both], pair.b[pair.both]
    return summary(a, b, sign_matrix(signs(a), signs(b)), int(a.size), largest(a - b))


def sign_matrix(a: Ints, b: Ints) -> Ints:
    """Counts `[3, 3]`: rows − 0 + of the first, columns of the second."""
    return np.bincount((a + 1) * 3 + b + 1, minlength=9).reshape(3, 3).astype(np.int64)


def summary(a: Floats, b: Floats, matrix: Ints, count: int, greatest: float) -> dict[str, Any]:
    """`a`, `b`: all numbers, or an even sample of the `count` that `matrix` and `greatest` are of."""
    return {
        "count": count,
        "sampled": int(a.size),
        "spearman": spearman(a, b),
        "sign_agreement": float(np.trace(matrix)) / count if count else None,
        "max_abs_difference": greatest if count else None,
        "p99_abs_difference": float(np.quantile(np.abs(a - b), 0.99)) if a.size else None,
        "sign_matrix": matrix.tolist(),
    }
