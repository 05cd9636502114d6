"""How a set of advantages is spread, and its signs: what is said of one that is not kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from estimators.moments import Moments, of_values
from estimators.request import Request
from estimators.workspace import buffer

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: Quantiles of more numbers than this are those of as many, evenly spaced among them.
MOST_SAMPLED = 1 << 14


@dataclass(frozen=True, slots=True)
class Spread:
    """Of `moments.count` numbers; `undefined` further ones are no numbers. NaN where there is none.

    quantiles  at `QUANTILES`, of `sampled` of the numbers
    """

    moments: Moments
    least: float
    greatest: float
    quantiles: tuple[float, ...]
    sampled: int
    negative: int
    zero: int
    positive: int
    undefined: int


@dataclass(frozen=True, slots=True)
class Signs:
    """Which of a set of numbers are negative and which positive, bool each, in an order of the maker's."""

    negative: Tensor
    positive: Tensor

    def opposite(self, other: "Signs") -> int:
        """How many are negative in one and positive in the other."""
        return _both(self.negative, other.positive) + _both(self.positive, other.negative)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the advantages of one point of a grid look like: of unmasked tokens where `per_token`, else of
    rollouts.

    changed  the settings that the point has of the grid; `request` is all of it
    spread   after whitening; `raw` before it
    flips    advantages that are negative here and positive at the first point, or the other way round
    refused  why the point cannot be computed; the numbers then are of nothing
    """

    changed: dict[str, Any]
    request: Request
    per_token: bool = False
    spread: Spread | None = None
    raw: Moments | None = None
    flips: int = 0
    refused: str | None = None


def spread_of(values: Tensor) -> Spread:
    """The spread of `values` `[M]`, in any dtype; what is not finite is `undefined`."""
    finite = values[torch.isfinite(values)].double()
    moments = of_values(finite)
    if not finite.numel():
        return Spread(moments, np.nan, np.nan, (np.nan,) * len(QUANTILES), 0, 0, 0, 0, values.numel())
    sample = finite[:: stride_of(finite.numel())]
    negative, positive = count(finite < 0), count(finite > 0)
    return Spread(
        moments,
        float(finite.min()),
        float(finite.max()),
        quantiles_of(sample),
        sample.numel(),
        negative,
        finite.numel() - negative - positive,
        positive,
        values.numel() - finite.numel(),
    )


def stride_of(numbers: int) -> int:
    """Every how many-th number is in the sample that quantiles are taken of."""
    return max(1, -(-numbers // MOST_SAMPLED))


def quantiles_of(sample: Tensor) -> tuple[float, ...]:
    """Linear between neighbours, as numpy's."""
    found: list[float] = np.quantile(sample.double().cpu().numpy(), QUANTILES).tolist()
    return tuple(found)


def _both(one: Tensor, other: Tensor) -> int:
    """How many entries are set in both."""
    return count(torch.logical_and(one, other, out=buffer("both", one.shape[0], one)))


def count(mask: Tensor) -> int:
    """How many entries of the bool tensor are set."""
    if mask.device.type == "cpu":
        return int(np.count_nonzero(mask.numpy()))
    return int(mask.sum())
