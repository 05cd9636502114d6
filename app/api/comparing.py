"""Two estimates of one batch against each other, token by token."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.api.token_values import MASK, pieces
from app.figures.agreement import largest, sign_matrix, signs, summary
from app.figures.chosen import Floats
from storage.database import ReadSession
from storage.models import Batch, Estimate

#: Ranks and quantiles of more tokens than this are of an even sample of as many.
MOST_SAMPLED = 1 << 20


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
