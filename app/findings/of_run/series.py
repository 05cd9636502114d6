"""Numbers of a run by step, and the step at which one of them turned.

A turn is looked for by cumulated sums: of all ways to cut the series in two, the one whose halves differ
most against the noise. Noise is the larger of what one step differs from the next (median, so that the turn
itself does not count) and what a batch of that size leaves to chance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.findings.view import Floats
from app.formatting import integer
from storage.runs import StepRow

#: Fewer steps than this have no before and after.
LEAST = 4
#: Steps in the windows that say what was before and what is now: a twentieth of the run, 3 to 20.
WINDOW = (3, 20)
#: Noise that a turn has to exceed. The largest of n sums of pure noise stays below 4.5 in runs of thousands.
CERTAIN = 6.0
GAUSSIAN = 1.4826 / math.sqrt(2.0)  # median |difference| of neighbours -> std of one


@dataclass(frozen=True, slots=True)
class Series:
    """A number over the steps that have it. `rows`, `values` and `chance` (its standard error) `[n]`."""

    rows: Sequence[StepRow]
    values: Floats
    chance: Floats


@dataclass(frozen=True, slots=True)
class Turn:
    """`at`: the first row after the turn. `before` and `now`: medians of a window before it and at the end.

    `halves` is the difference of the means after and before it, `score` the same in units of noise; `steps`
    are the ends of the last window.
    """

    at: StepRow
    last_before: StepRow
    before: float
    now: float
    halves: float
    score: float
    steps: tuple[int, int]


def series(
    rows: Sequence[StepRow],
    value: Callable[[dict[str, Any]], float | None],
    chance: Callable[[dict[str, Any]], float | None] = lambda statistics: None,
) -> Series:
    """The number as read from each row's statistics; rows without it are left out."""
    kept = [
        (row, found) for row in rows if (found := value(row.statistics)) is not None and math.isfinite(found)
    ]
    errors = [chance(row.statistics) or 0.0 for row, _ in kept]
    return Series([row for row, _ in kept], np.array([found for _, found in kept]), np.array(errors))


def noise(found: Series) -> float:
    """How much one step's number differs by nothing but chance; never 0."""
    between = float(np.median(np.abs(np.diff(found.values)))) * GAUSSIAN
    size = float(np.abs(found.values).max())
    return max(between, float(np.median(found.chance)), 1e-9 * size, 1e-300)


def turn(found: Series) -> Turn | None:
    """Where the series turned, if the change stands out of the noise and lasts to the end."""
    n = found.values.size
    if n < LEAST:
        return None
    least = 1 if n < 8 else 2
    sums = np.cumsum(found.values)
    k = np.arange(least, n - least + 1)
    before, after = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    unit = noise(found)
    scores = np.abs(after - before) * np.sqrt(k * (n - k) / n) / unit
    best = int(np.argmax(scores))
    cut = int(k[best])
    width = int(np.clip(n // 20, *WINDOW))
    first, last = found.values[max(0, cut - width) : cut], found.values[max(cut, n - width) :]
    level, now = float(np.median(first)), float(np.median(last))
    lasting = abs(now - level) * math.sqrt(min(first.size, last.size)) / unit
    if scores[best] < CERTAIN or lasting < CERTAIN / 2:
        return None
    start = found.rows[max(cut, n - width)].step
    end = found.rows[-1].step
    assert start is not None and end is not None
    halves = float(after[best] - before[best])
    return Turn(found.rows[cut], found.rows[cut - 1], level, now, halves, float(scores[best]), (start, end))


def steps_of(turned: Turn) -> str:
    """The last window in words: "steps 190–200"."""
    first, last = turned.steps
    return f"step {integer(last)}" if first == last else f"steps {integer(first)}–{integer(last)}"
