"""Count, mean and squared deviations of a set of numbers: small to keep, and two of them merge into one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
    return _merge(mean, scope, scopes, (m2, count))


def values_by_scope(values: Tensor, scope: Tensor, scopes: int) -> tuple[Tensor, Tensor, Tensor]:
    """`by_scope` where every part is one finite number."""
    return _merge(values, scope, scopes, None)


def _merge(
    mean: Tensor, scope: Tensor, scopes: int, spread: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """On the CPU with numpy, whose calls take half as long as torch's; elsewhere with torch."""
    if mean.device.type == "cpu":
        arrays = None if spread is None else (spread[0].numpy(), spread[1].numpy())
        with np.errstate(over="ignore", invalid="ignore"):  # Who uses them says that they overflow.
            found = _two_passes(
                mean.numpy(),
                scope.numpy(),
                arrays,
                lambda of, x=None: np.bincount(of, x, scopes).astype(np.float64, copy=False),
            )
        count, centre, m2 = (torch.from_numpy(part) for part in found)
        return count, centre, m2
    none, ones = mean.new_zeros(scopes), torch.ones_like(mean)
    return _two_passes(
        mean, scope, spread, lambda of, x=None: none.index_add(0, of, ones if x is None else x)
    )


def _two_passes(
    mean: Any, scope: Any, spread: tuple[Any, Any] | None, sums: Callable[..., Any]
) -> tuple[Any, Any, Any]:
    """On arrays of numpy or torch. `sums(scope, x)` adds up by scope, `sums(scope)` counts."""
    m2, count = spread or (0.0, 1.0)
    total = sums(scope) if spread is None else sums(scope, count)
    # A member of each scope as pivot: a constant scope then has a mean and deviations that are exact.
    pivot = total * 0.0
    pivot[scope] = mean
    shift = mean - pivot[scope]
    offset = sums(scope, shift * count) / (total + (total == 0))
    rest = shift - offset[scope]
    return total, pivot + offset, sums(scope, rest * rest * count + m2)
