"""Count, mean and squared deviations of a set of numbers: small to keep, and two of them merge into one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Moments:
    """`count` numbers with arithmetic `mean` and `m2` = Σ(x − mean)². The empty set is (0, 0, 0)."""

    count: float = 0.0
    mean: float = 0.0
    m2: float = 0.0

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets together (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        if count == 0:
            return Moments()
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        m2 = self.m2 + other.m2 + delta * delta * (self.count * other.count / count)
        return Moments(count, mean, m2)

    def variance(self, ddof: int = 1) -> float:
        """`m2 / (count − ddof)`; NaN where that is not defined."""
        return self.m2 / (self.count - ddof) if self.count > ddof else float("nan")


def merge_all(parts: Iterable[Moments]) -> Moments:
    """The moments of all parts together."""
    whole = Moments()
    for part in parts:
        whole = whole.merge(part)
    return whole


def of_values(values: Tensor, weights: Tensor | None = None) -> Moments:
    """Moments of the finite entries of `values` `[M]`, in two passes in float64.

    `weights` `[M]` counts each entry that many times; entries of weight 0 do not take part.
    """
    counted = torch.isfinite(values)
    if weights is not None:
        counted &= weights > 0
    kept = values[counted].double()
    weight = torch.ones_like(kept) if weights is None else weights[counted].double()
    count = float(weight.sum())
    if count == 0:
        return Moments()
    pivot = kept[0]
    mean = pivot + (weight * (kept - pivot)).sum() / count
    return Moments(count, float(mean), float((weight * (kept - mean).square()).sum()))


def merged(mean: Tensor, m2: Tensor, count: Tensor) -> Moments:
    """The moments of all parts together, `[B]` float64 each; parts of count 0 do not take part."""
    live = count > 0
    if not bool(live.all()):
        mean, m2, count = mean[live], m2[live], count[live]
    if not count.numel():
        return Moments()
    total, shift = count.sum(), mean - mean[0]
    offset = (count * shift).sum() / total
    squares = m2.sum() + (count * (shift - offset).square()).sum()
    return Moments(float(total), float(mean[0] + offset), float(squares))


def by_scope(
    mean: Tensor, m2: Tensor, count: Tensor, scope: Tensor, scopes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Merges the moments of parts, `[B]` float64 each, that share a number in `scope` `[B]`.

    Gives (count, mean, m2) `[scopes]`. Parts of count 0 do not take part; an empty scope has mean 0.
    """
    live = count > 0
    if not bool(live.all()):
        mean, m2, count, scope = mean[live], m2[live], count[live], scope[live]
    total = _sums(count, scope, scopes)
    # A member of each scope as pivot: a constant scope then has a mean and deviations that are exact.
    pivot = torch.zeros_like(total)
    pivot[scope] = mean
    shift = mean - pivot[scope]
    offset = _sums(count * shift, scope, scopes) / total.clamp(min=1e-300)
    deviation = (shift - offset[scope]).square() * count + m2
    return total, pivot + offset, _sums(deviation, scope, scopes)


def _sums(values: Tensor, scope: Tensor, scopes: int) -> Tensor:
    """Sum of `values` `[B]` by number in `scope`, `[scopes]` float64."""
    if values.device.type == "cpu":
        return torch.from_numpy(
            np.bincount(scope.numpy(), values.numpy(), scopes).astype(np.float64, copy=False)
        )
    return torch.zeros(scopes, dtype=torch.float64, device=values.device).index_add_(0, scope, values)
