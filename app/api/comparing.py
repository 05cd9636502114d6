"""Two sets of advantages of one batch against each other: ranks, signs, differences."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.api.token_values import MASK, pieces
from app.figures.chosen import Chosen, per_rollout
from app.figures.length_advantage import spearman
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch, Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: A sign is 0 within this share of the largest size: what rounding leaves of a zero.
TINY = 1e-9
#: Ranks and quantiles of more tokens than this are of an even sample of as many.
MOST_SAMPLED = 1 << 20
SIGNS = (-1, 0, 1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both advantages of every rollout, `[B]` in the order of the batch's index; NaN where there is none."""

    index: Ints
    a: Floats
    b: Floats

    @property
    def sign_change(self) -> NDArray[np.bool_]:
        """`[B]` negative in one and positive in the other."""
        return signs(self.a, largest(self.a)) * signs(self.b, largest(self.b)) < 0


def pair_of(session: ReadSession, batch: Batch, a: Chosen, b: Chosen) -> Pair:
    columns = rollouts.columns(session, batch.id)
    order = np.argsort(columns.index)
    found = (per_rollout(session, batch, each, columns)[order] for each in (a, b))
    return Pair(columns.index[order], *found)


def largest(values: Floats) -> float:
    """Largest size among the finite numbers; 0 without any."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def signs(values: Floats, size: float) -> Ints:
    """−1, 0 or 1 each; NaN gives 0."""
    known = np.nan_to_num(values)
    return np.where(np.abs(known) <= TINY * size, 0, np.sign(known)).astype(np.int64)


def over_rollouts(pair: Pair) -> dict[str, Any]:
    """Of the rollouts that have both, each counting once with its mean."""
    both = np.isfinite(pair.a) & np.isfinite(pair.b)
    a, b = pair.a[both], pair.b[both]
    matrix = sign_matrix(signs(a, largest(pair.a)), signs(b, largest(pair.b)))
    return summary(a, b, matrix, int(both.sum()), largest(a - b))


def sign_matrix(a: Ints, b: Ints) -> NDArray[np.int64]:
    """Counts `[3, 3]`: rows − 0 + of the first, columns of the second."""
    return np.bincount((a + 1) * 3 + b + 1, minlength=9).reshape(3, 3)


def summary(a: Floats, b: Floats, matrix: NDArray[np.int64], count: int, greatest: float) -> dict[str, Any]:
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


def over_tokens(session: ReadSession, batch: Batch, a: Estimate, b: Estimate) -> dict[str, Any]:
    """Of the unmasked tokens that have both, part by part, so that a large batch is never in memory."""
    every = max(1, -(-batch.tokens // MOST_SAMPLED))
    sizes = [_size(estimate) for estimate in (a, b)]
    matrix, greatest, count = np.zeros((3, 3), dtype=np.int64), 0.0, 0
    sample: list[tuple[Floats, Floats]] = []
    for first, second in _parts(session, a, b):
        both = np.isfinite(first) & np.isfinite(second)
        first, second = first[both], second[both]
        matrix += sign_matrix(signs(first, sizes[0]), signs(second, sizes[1]))
        greatest = max(greatest, largest(first - second))
        start = -count % every
        sample.append((first[start::every], second[start::every]))
        count += first.size
    x, y = (np.concatenate(column) if column else np.empty(0) for column in zip(*sample, strict=True))
    return summary(x, y, matrix, count, greatest)


def _size(estimate: Estimate) -> float:
    """The largest size among its advantages, as its summary has it."""
    said = estimate.summary or {}
    return max(abs(float(said.get(name) or 0.0)) for name in ("min", "max"))


def _parts(session: ReadSession, a: Estimate, b: Estimate) -> Iterator[tuple[Floats, Floats]]:
    """Both advantages on the unmasked tokens of each part."""
    wanted = ("advantages",)
    for one, other in zip(pieces(session, a, wanted), pieces(session, b, wanted), strict=True):
        first, second = [], []
        for values, others in zip(one.values, other.values, strict=True):
            mask, x, y = values[MASK], values["advantages"], others["advantages"]
            if mask is not None and x is not None and y is not None:
                first.append(x[mask > 0])
                second.append(y[mask > 0])
        if first:
            yield np.concatenate(first).astype(np.float64), np.concatenate(second).astype(np.float64)
