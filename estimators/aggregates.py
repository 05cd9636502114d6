"""Quantiles, histograms and moments of many numbers: exact, in a few nanoseconds each, from mergeable parts.

A float's bits, read as a whole number, order as floats do once those of negative ones are turned round.
Counts by the leading 16 of them are a histogram of 65,536 buckets whatever the numbers are, and counts of two
parts add up. Which buckets hold the wanted quantiles is then known, and only their numbers are sorted.

Entries that are not finite are left out throughout.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from estimators.moments import Moments

Floats = NDArray[np.float32] | NDArray[np.float64]
Ints = NDArray[np.int64]

#: Buckets of a digit, of 16 bits.
DIGIT = 1 << 16
#: Numbers worked on together: the histogram's 512 KiB and theirs stay in the cache.
TILE = 1 << 18
#: The same where doubles are added up; and the longest dot product that the BLAS leaves to one thread.
SUMMED, DOT = 1 << 15, 1 << 13
#: Fewer numbers than this are sorted: the histogram is larger than they are.
FEW = 1 << 16
#: The leading digit of the first float that is not finite, by the bytes of one.
INFINITE = {4: 0x7F80, 8: 0x7FF0}


@dataclass(frozen=True, slots=True)
class RadixHistogram:
    """How many numbers have each leading digit, `[65536]` int64, those of the least numbers first.

    A bucket is 1/128 of its numbers wide in single precision, 1/16 in double. `width` is the bytes of a
    number. The same in every batch: two of them `merge`, whatever they are of.
    """

    width: int
    counts: Ints

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Of the numbers `[N]`."""
        counts, size = np.zeros(DIGIT, dtype=np.int64), values.itemsize
        digits = _leading(values)
        held = np.empty(min(TILE, digits.size), dtype=np.int64)
        for first in range(0, digits.size, TILE):
            part = digits[first : first + TILE]
            held[: part.size] = part
            counts += np.bincount(held[: part.size], minlength=DIGIT)
        counts[INFINITE[size] : DIGIT // 2] = counts[INFINITE[size] + DIGIT // 2 :] = 0
        return cls(size, np.concatenate([counts[: DIGIT // 2 - 1 : -1], counts[: DIGIT // 2]]))

    def merge(self, other: Self) -> Self:
        """Of the numbers of both."""
        if other.width != self.width:
            raise ValueError(f"histograms of numbers of {self.width} and {other.width} bytes do not merge")
        return type(self)(self.width, self.counts + other.counts)

    @property
    def count(self) -> int:
        """Finite numbers."""
        return int(self.counts.sum())

    def edges(self) -> NDArray[np.float64]:
        """The number of least size in each bucket, `[65536]`."""
        digits = np.arange(DIGIT, dtype=np.uint64)
        negative = digits < DIGIT // 2
        keys = (digits << np.uint64(8 * self.width - 16)).astype(f"u{self.width}")
        keys[negative] |= keys.dtype.type((1 << (8 * self.width - 16)) - 1)
        sign = keys.dtype.type(1 << (8 * self.width - 1))
        found: NDArray[Any] = np.where(keys & sign, keys & ~sign, ~keys).view(f"f{self.width}")
        with np.errstate(invalid="ignore"):  # Most of those behind the infinite ones are no numbers.
            return found.astype(np.float64)

    def quantiles(self, at: Sequence[float]) -> tuple[float, ...]:
        """Without interpolation, off by less than a bucket's width; NaN where there is no number."""
        if not self.count:
            return (np.nan,) * len(at)
        ranks = np.rint(np.asarray(at, dtype=np.float64) * (self.count - 1))
        buckets = np.searchsorted(np.cumsum(self.counts), ranks, side="right")
        return tuple(self.edges()[buckets].tolist())


@dataclass(frozen=True, slots=True)
class Search:
    """Where the numbers of some ranks lie: in which buckets, and at which places of those buckets' numbers.

    buckets  `[65536]` bool, in the histogram's order
    places   `[K]` int64 of the ranks among the numbers of those buckets, ascending
    """

    buckets: NDArray[np.bool_]
    places: Ints

    @classmethod
    def of(cls, histogram: RadixHistogram, ranks: Ints) -> Self:
        """For `ranks` `[K]`, each below the histogram's count."""
        ends = np.cumsum(histogram.counts)
        holding = np.searchsorted(ends, ranks, side="right")
        buckets = np.zeros(DIGIT, dtype=np.bool_)
        buckets[holding] = True
        before = np.cumsum(np.where(buckets, 0, histogram.counts))
        return cls(buckets, ranks - before[holding])

    def survivors(self, values: Floats) -> NDArray[Any]:
        """Those of the numbers `[N]` that are in the buckets: of several parts, put together in any order."""
        wanted = np.concatenate([self.buckets[DIGIT // 2 :], self.buckets[DIGIT // 2 - 1 :: -1]])
        digits, kept = _leading(values), [values[:0]]
        for first in range(0, digits.size, TILE):
            part = np.flatnonzero(np.take(wanted, digits[first : first + TILE]))
            kept.append(values[first : first + TILE][part])
        return np.concatenate(kept)


def quantiles(parts: Sequence[Floats], at: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the finite numbers of all parts `[N]` together, linear between neighbours as numpy's.

    The parts are of one precision; what lies between neighbours is worked out in double precision. NaN where
    there is no number.
    """
    if sum(part.size for part in parts) < FEW:
        every = np.concatenate(parts)
        ordered = np.sort(every[np.isfinite(every)])
        low, high, share = _neighbours(ordered.size, at)
        places = np.stack([low, high])
    else:
        whole = RadixHistogram.of(parts[0])
        for part in parts[1:]:
            whole = whole.merge(RadixHistogram.of(part))
        low, high, share = _neighbours(whole.count, at)
        search = Search.of(whole, np.stack([low, high]) if whole.count else np.zeros((2, 0), np.int64))
        ordered, places = np.sort(np.concatenate([search.survivors(part) for part in parts])), search.places
    if not ordered.size:
        return (np.nan,) * len(at)
    found = ordered[places].astype(np.float64)
    return tuple(_lerp(found[0], found[1], share).tolist())


def group_quantiles(values: Floats, offsets: Ints, at: Sequence[float]) -> NDArray[np.float64]:
    """`quantiles` of each stretch `offsets[g]:offsets[g+1]` of `values` `[N]`, `[G, len(at)]`."""
    ordered = values.copy()
    for first, last in pairwise(offsets.tolist()):
        ordered[first:last].sort()
    counts, starts = np.diff(offsets), offsets[:-1]
    if not np.isfinite(ordered).all():
        # Sorted: −∞, numbers, ∞, NaN.
        ends = np.concatenate([[0], np.cumsum(np.isfinite(ordered))])
        least = np.concatenate([[0], np.cumsum(np.isneginf(ordered))])
        starts = starts + (least[offsets[1:]] - least[offsets[:-1]])
        counts = ends[offsets[1:]] - ends[offsets[:-1]]
    low, high, share = _neighbours(counts[:, None], at)
    last = max(ordered.size - 1, 0)
    ordered = ordered if ordered.size else np.zeros(1, dtype=values.dtype)
    below, above = (
        ordered[np.minimum(starts[:, None] + place, last)].astype(np.float64) for place in (low, high)
    )
    some = counts > 0
    found = np.full((counts.size, len(at)), np.nan)
    found[some] = _lerp(below[some], above[some], share[some])
    return found


def uniform_histogram(values: Floats, edges: NDArray[np.float64]) -> Ints:
    """`numpy.histogram(values, edges)[0]` in a fraction of the time; `edges` `[K+1]` are equally far apart.

    A number is in the bin that its position says; near an edge it is compared with the edges themselves.
    """
    bins, step = edges.size - 1, float(edges[-1] - edges[0]) / (edges.size - 1)
    if values.size < DOT or bins >= DIGIT or not 0 < step < np.inf or not np.isfinite(1 / step):
        return _compared(values, edges)
    # What rounding does to a position: to the number's own, to that of the first edge, and to the edges.
    far = max(1.0, float(np.abs(edges).max()) / (bins * step))
    off = 4 * bins * float(np.finfo(values.dtype).eps) * far
    counts, typed = np.zeros(bins, dtype=np.int64), values.dtype.type
    # Positions from the middle of the first bin. Added to so large a number, what is left is a whole number,
    # which stands in the last bits.
    per, middle = typed(1 / step), typed(edges[0] / step + 0.5)
    large = typed(1.5 / np.finfo(values.dtype).eps)
    position, whole = (np.empty(SUMMED, dtype=values.dtype) for _ in range(2))
    close: list[Floats] = []
    last_bits, number = whole.view(np.uint16)[:: values.itemsize // 2], np.empty(SUMMED, dtype=np.int64)
    for first in range(0, values.size, SUMMED):
        part = values[first : first + SUMMED]
        p, w, i = position[: part.size], whole[: part.size], number[: part.size]
        np.subtract(np.multiply(part, per, out=p), middle, out=p)
        if not (p.min() > -1 and p.max() < bins):  # Also where one is no number.
            close.append(part)
            continue
        np.add(p, large, out=w)
        i[:] = last_bits[: part.size]
        np.abs(np.subtract(p, np.subtract(w, large, out=w), out=p), out=p)
        near = np.flatnonzero(p > typed(0.5 - off))
        i[near] = bins  # A bin of their own, behind the last.
        counts += np.bincount(i, minlength=bins + 1)[:bins]
        close.append(part[near])
    return counts + _compared(np.concatenate(close), edges)


def _compared(values: NDArray[Any], edges: NDArray[np.float64]) -> Ints:
    found: Ints = np.histogram(values[np.isfinite(values)], edges)[0]
    return found


def running_moments(parts: Iterable[Floats], so_far: Moments | None = None) -> Moments:
    """Moments of the finite numbers of all parts `[N]` and of `so_far`, in double precision.

    Each part is read once, in tiles; deviations are from the mean of what came before.
    """
    whole, work = so_far or Moments(), np.empty(SUMMED)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is seen from the sum.
        for part in parts:
            for first in range(0, part.size, SUMMED):
                whole = whole.merge(_of_tile(part[first : first + SUMMED], whole.mean, work))
    return whole


def _of_tile(tile: Floats, pivot: float, work: NDArray[np.float64]) -> Moments:
    """Of the finite numbers of a tile, from their deviations from `pivot`."""
    total = _deviations(tile, pivot, work)
    if not isfinite(total):
        tile = tile[np.isfinite(tile)]
        if not tile.size:
            return Moments()
        total = _deviations(tile, pivot, work)
    mean, squares = total / tile.size, _dot(work[: tile.size])
    if 2 * total * mean > squares:  # Far from the pivot: most of the squares is the distance.
        pivot += mean
        total = _deviations(tile, pivot, work)
        mean, squares = total / tile.size, _dot(work[: tile.size])
    return Moments(tile.size, pivot + mean, max(squares - total * mean, 0.0))


def _deviations(tile: Floats, pivot: float, work: NDArray[np.float64]) -> float:
    """Of a tile's numbers from the pivot, into `work`; gives their sum."""
    held = work[: tile.size]
    held[:] = tile
    held -= pivot
    return float(held.sum())


def _dot(values: NDArray[np.float64]) -> float:
    """Σx², without threads of the BLAS."""
    whole = values.size - values.size % DOT
    rows = values[:whole].reshape(-1, DOT)
    return float(np.vecdot(rows, rows).sum()) + float(np.dot(values[whole:], values[whole:]))


def _leading(values: Floats) -> NDArray[np.uint16]:
    """The leading 16 bits of each number, `[N]`, as they lie in memory."""
    digits: NDArray[np.uint16] = np.ascontiguousarray(values).view(np.uint16)
    return digits[values.itemsize // 2 - 1 :: values.itemsize // 2]


def _neighbours(count: Any, at: Sequence[float]) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Ranks below and above each quantile of `count` numbers, and how far it lies between them."""
    position = np.asarray(at, dtype=np.float64) * np.maximum(count - 1, 0)
    low = np.floor(position).astype(np.int64)
    return low, np.minimum(low + 1, np.maximum(count - 1, 0)), position - low


def _lerp(low: Any, high: Any, share: Any) -> NDArray[np.float64]:
    """As numpy's quantile has it: from the nearer of the two."""
    gap = high - low
    found: NDArray[np.float64] = np.where(share < 0.5, low + gap * share, high - gap * (1 - share))
    return found
