"""Geometry of the small server-made pictures: dot strips, sparklines, token lanes and tracks.

Functions from numbers to coordinates; the SVG elements are written by templates/parts/drawings.html. Colours
are CSS classes, so that one picture serves both themes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.tokens import BUCKETS, NO_VALUE, bucket

MASKED_CLASS = "lm"
UNKNOWN_CLASS = "lx"


@dataclass(frozen=True, slots=True)
class Strip:
    """Dots of one group's rewards, stacked from the axis upwards; `path` draws them, `mean` is the x of the
    mean tick."""

    width: int
    height: int
    radius: float
    dots: tuple[tuple[float, float], ...]
    path: str
    mean: float | None
    unscored: int


@dataclass(frozen=True, slots=True)
class Line:
    """A polyline with gaps: SVG path data, the last point, and the range that its height stands for."""

    width: int
    height: int
    path: str
    last: tuple[float, float] | None
    low: float | None
    high: float | None
    zero: float | None  # y of zero where it lies in the range


@dataclass(frozen=True, slots=True)
class Lane:
    """One response along its tokens: path data per colour class."""

    width: int
    paths: tuple[tuple[str, str], ...]


def dot_strip(
    rewards: Sequence[float | None], low: float, high: float, width: int = 100, height: int = 34
) -> Strip:
    """Rewards of one group on the axis low … high, equal ones stacked. None: not scored, counted apart."""
    scored = sorted(value for value in rewards if value is not None and math.isfinite(value))
    margin, radius = 6.0, 2.0
    span = (high - low) or 1.0
    places = max(1, int((width - 2 * margin) / (2 * radius + 0.2)))
    columns: dict[int, int] = {}
    for value in scored:
        place = round(min(1.0, max(0.0, (value - low) / span)) * places)
        columns[place] = columns.get(place, 0) + 1
    tallest = max(columns.values(), default=1)
    step = min(2 * radius + 0.2, (height - 6.0 - 2 * radius) / max(1, tallest - 1))
    rows = [round(height - 4.0 - radius - row * step, 1) for row in range(tallest)]
    dots = tuple(
        (round(margin + place / places * (width - 2 * margin), 1), y)
        for place, count in sorted(columns.items())
        for y in rows[:count]
    )
    mean = None
    if scored:
        share = (sum(scored) / len(scored) - low) / span
        mean = round(margin + min(1.0, max(0.0, share)) * (width - 2 * margin), 1)
    return Strip(width, height, radius, dots, circles(dots, radius), mean, len(rewards) - len(scored))


def circles(centres: Sequence[tuple[float, float]], radius: float) -> str:
    """Path data of filled circles: one element for all of them, which a page of thousands needs."""
    r, d = f"{radius:g}", f"{2 * radius:g}"
    arcs = f"a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0"
    return "".join([f"M{x - radius:.1f} {y}{arcs}" for x, y in centres])


def places(values: Sequence[float], low: float, high: float, width: int) -> list[float]:
    """x of each value on the axis low … high of a picture `width` wide."""
    span = (high - low) or 1.0
    return [round(2 + min(1.0, max(0.0, (value - low) / span)) * (width - 4), 1) for value in values]


def line(
    values: Sequence[float | None] | NDArray[Any],
    width: int = 160,
    height: int = 32,
    low: float | None = None,
    high: float | None = None,
) -> Line:
    """A series over equally spaced places; longer ones are drawn as the least and greatest of each column."""
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    finite = array[np.isfinite(array)]
    if not finite.size:
        return Line(width, height, "", None, None, None, None)
    low = float(finite.min()) if low is None else low
    high = float(finite.max()) if high is None else high
    span = (high - low) or 1.0
    places, drawn = _columns(array, width)
    x = np.round(1.5 + places * (width - 3) / max(1, array.size - 1), 1)
    # A flat line runs through the middle, not along an edge.
    share = np.clip((drawn - low) / span, 0.0, 1.0) if high > low else np.full(drawn.shape, 0.5)
    y = np.round(height - 2 - share * (height - 4), 1)
    path, pen_down, last = [], False, None
    for place_x, place_y, value in zip(x.tolist(), y.tolist(), drawn.tolist(), strict=True):
        if not math.isfinite(value):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{place_x:g} {place_y:g}")
        pen_down, last = True, (place_x, place_y)
    zero = round(height - 2 - (0 - low) / span * (height - 4), 1) if low <= 0 <= high and high > low else None
    return Line(width, height, "".join(path), last, low, high, zero)


def stems(values: Sequence[float | None] | NDArray[Any], width: int = 160, height: int = 32) -> Line:
    """A series that is mostly 0, as a stem from 0 to each other value: a line would slope in between."""
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    finite = array[np.isfinite(array)]
    if not finite.any():
        return line(array, width, height)
    flat = line(array, width, height, min(0.0, float(finite.min())), max(0.0, float(finite.max())))
    places, drawn = _columns(array, width)
    x = np.round(1.5 + places * (width - 3) / max(1, array.size - 1), 1)
    low, high = flat.low or 0.0, flat.high or 0.0
    y = np.round(height - 2 - (drawn - low) / (high - low) * (height - 4), 1)
    there = np.isfinite(drawn) & (drawn != 0)
    stem = "".join(f"M{a:g} {flat.zero:g}V{b:g}" for a, b in zip(x[there], y[there], strict=True))
    return Line(width, height, stem, None, flat.low, flat.high, flat.zero)


def _columns(array: NDArray[np.float64], width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places and values to draw: all of them, or two per column, so that no spike is lost."""
    if array.size <= 2 * width:
        return np.arange(array.size, dtype=np.float64), array
    starts = np.linspace(0, array.size, width, endpoint=False).astype(np.int64)
    finite = np.where(np.isfinite(array), array, np.nan)
    pairs = np.stack([np.fmin.reduceat(finite, starts), np.fmax.reduceat(finite, starts)], axis=1)
    return np.repeat(starts, 2).astype(np.float64), pairs.ravel()


def lane(
    values: NDArray[Any] | float | None,
    mask: NDArray[Any] | None,
    length: int,
    longest: int,
    clip: float,
    width: int = 480,
    height: int = 12,
) -> Lane:
    """One response as coloured runs: a column shows the value of largest magnitude of its unmasked tokens.

    `values` is one per token, or one for the response. Columns whose tokens are all masked are drawn thin,
    ones without a value hollow.
    """
    columns = max(1, min(length, math.ceil(width * length / max(1, longest)))) if length else 0
    if not columns:
        return Lane(width, ())
    shape = (length,)
    per_token = (
        np.full(shape, np.nan) if values is None else np.broadcast_to(np.asarray(values, float), shape)
    )
    unmasked = np.ones(shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    starts = np.linspace(0, length, columns, endpoint=False).astype(np.int64)
    seen = np.where(unmasked, per_token, np.nan)
    low, high = np.fmin.reduceat(seen, starts), np.fmax.reduceat(seen, starts)
    strongest = np.where(np.abs(low) > np.abs(high), low, high)
    classes = bucket(strongest, clip).astype(np.int64)
    classes[np.add.reduceat(unmasked.astype(np.int64), starts) == 0] = NO_VALUE + 1
    return Lane(width, tuple(_runs(classes, width * length / max(1, longest) / columns, height)))


def _runs(classes: NDArray[np.int64], column: float, height: int) -> list[tuple[str, str]]:
    """Path data per class, neighbours of one class as one rectangle."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    starts = np.concatenate([[0], edges])
    stops = np.concatenate([edges, [classes.size]])
    paths: dict[int, list[str]] = {}
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        kind = int(classes[start])
        left, wide = start * column, (stop - start) * column
        top, tall = (height / 2 - 1, 2) if kind == NO_VALUE + 1 else (0, height)
        paths.setdefault(kind, []).append(f"M{left:.4g} {top:g}h{wide:.4g}v{tall}h-{wide:.4g}z")
    names = {NO_VALUE: UNKNOWN_CLASS, NO_VALUE + 1: MASKED_CLASS}
    return [(names.get(kind, f"f{kind}"), "".join(parts)) for kind, parts in sorted(paths.items())]


def legend(clip: float) -> list[tuple[str, float]]:
    """The eleven classes and the middle of each one's range, from strongest negative to positive."""
    half = (BUCKETS - 1) // 2
    return [(f"b{i}", (i - half) / half * clip) for i in range(BUCKETS)]
