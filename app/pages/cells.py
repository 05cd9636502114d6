"""Every prompt group of a batch in one record: its rewards, what they can teach, its share of all advantage.

A batch never changes once it is there, and neither does a finished estimate; so the last few lists are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app.figures import chosen as choosing
from app.figures.chosen import Chosen
from app.figures.kept import columns_of
from app.findings.fillers import fillers_of
from app.findings.statistics import group_signal, pass_above
from app.findings.view import GroupStatistics, TokenFacts, View, group_statistics
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch, Prompt
from storage.rollouts import Columns

#: What a group's rewards have to teach: kind -> the words under its strip.
WORDS = {
    "mixed": "",
    "near_zero": "next to no spread",
    "fail": "no signal: all fail",
    "pass": "no signal: all pass",
    "single": "a single rollout",
    "unscored": "not scored",
    "filler": "set aside: fills up the batch",
}
DEAD = ("fail", "pass", "single", "unscored", "filler")

_KEPT: Kept[tuple[str, str], tuple["Cell", ...]] = Kept(16)


@dataclass(frozen=True, slots=True)
class Cell:
    """One group. `rewards` in the order of the file, None where not scored; `std` has ddof 1.

    weight  Σ|A| over its unmasked tokens, and `share` of the batch's; None without an estimate
    dead    nothing to learn from; `words` say why, and are also there for next to no spread
    """

    group_no: int
    group_id: str
    data_source: str | None
    size: int
    scored: int
    rewards: tuple[float | None, ...]
    mean: float | None
    std: float | None
    passed: int
    length: float | None
    weight: float | None
    share: float | None
    signal: str
    words: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """The rollouts of a batch, `[B]` by group and then as in the file; −1 and NaN where not recorded.

    `group` is the dense number of the group, `numbers` `[G]` its own.
    """

    group: NDArray[np.int64]
    numbers: NDArray[np.int64]
    reward: NDArray[np.float64]
    length: NDArray[np.int64]


def cells(session: ReadSession, batch: Batch, chosen: Chosen) -> tuple[Cell, ...]:
    """A cell per group, by group number; weights under the chosen estimate."""
    estimate = chosen.estimate
    key = (batch.id, "" if estimate is None else f"{estimate.id} {estimate.finished}")
    return _KEPT.get(key, lambda: read_cells(session, batch, chosen))


def read_cells(session: ReadSession, batch: Batch, chosen: Chosen) -> tuple[Cell, ...]:
    columns = columns_of(session, batch)
    aside = fillers_of(session, batch, columns)
    rows = rows_of(columns, aside)
    if not rows.numbers.size:
        return ()
    statement = select(Prompt.group_no, Prompt.group_id, Prompt.data_source)
    prompts = session.execute(statement.where(Prompt.batch_id == batch.id))
    names = {number: (group_id, source) for number, group_id, source in prompts}
    named = [names[number] for number in rows.numbers.tolist()]
    weights = total_abs(session, columns, chosen)
    kinds, statistics, threshold = signals(rows, [source for _, source in named])
    kinds[~np.isin(rows.numbers, columns.group_no[~aside])] = "filler"
    counts = counts_of(rows, threshold)
    found = Found(
        numbers=rows.numbers.tolist(),
        named=named,
        rewards=none_if_not_finite(rows.reward),
        starts=counts.starts.tolist(),
        ends=counts.ends.tolist(),
        scored=statistics.scored.tolist(),
        mean=none_if_not_finite(statistics.mean),
        std=none_if_not_finite(statistics.std),
        passed=counts.passed.tolist(),
        length=none_if_not_finite(counts.length),
        kinds=kinds.tolist(),
    )
    return tuple(cell_of(found, place, weights) for place in range(rows.numbers.size))


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the groups, one entry each, as plain lists: an array gives up single numbers slowly.

    `rewards` are of all rollouts; a group's are those from its start to its end.
    """

    numbers: list[int]
    named: list[tuple[str, str | None]]
    rewards: list[float | None]
    starts: list[int]
    ends: list[int]
    scored: list[int]
    mean: list[float | None]
    std: list[float | None]
    passed: list[int]
    length: list[float | None]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class Counts:
    """Per group, `[G]`: where its rollouts are, how many pass, their mean length (NaN: unknown)."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    passed: NDArray[np.int64]
    length: NDArray[np.float64]


def counts_of(rows: Rows, threshold: float) -> Counts:
    groups = rows.numbers.size
    sizes = np.bincount(rows.group, minlength=groups)
    ends = np.cumsum(sizes)
    with np.errstate(invalid="ignore"):
        passed = np.bincount(rows.group[rows.reward > threshold], minlength=groups)
    known = rows.length >= 0
    count = np.bincount(rows.group[known], minlength=groups)
    total = np.bincount(rows.group[known], rows.length[known].astype(np.float64), minlength=groups)
    length = np.divide(total, count, out=np.full(groups, np.nan), where=count > 0)
    return Counts(ends - sizes, ends, passed, length)


def cell_of(found: Found, place: int, weights: dict[int, float] | None) -> Cell:
    number, kind = found.numbers[place], found.kinds[place]
    start, end = found.starts[place], found.ends[place]
    weight = None if weights is None else weights.get(number, 0.0)
    whole = 0.0 if weights is None else weights[-1]
    return Cell(
        group_no=number,
        group_id=found.named[place][0],
        data_source=found.named[place][1],
        size=end - start,
        scored=found.scored[place],
        rewards=tuple(found.rewards[start:end]),
        mean=found.mean[place],
        std=found.std[place],
        passed=found.passed[place],
        length=found.length[place],
        weight=weight,
        share=weight / whole if weight is not None and whole > 0 else None,
        signal=kind,
        words=WORDS[kind],
        dead=kind in DEAD,
    )


def rows_of(columns: Columns, aside: NDArray[np.bool_]) -> Rows:
    """`aside` `[B]`: those that only fill up the batch; their rewards are nobody's."""
    order = np.lexsort((columns.index, columns.group_no))
    numbers, group = np.unique(columns.group_no[order], return_inverse=True)
    reward = np.where(aside, np.nan, columns.reward)[order]
    return Rows(group.astype(np.int64), numbers, reward, columns.length[order])


def total_abs(session: ReadSession, columns: Columns, chosen: Chosen) -> dict[int, float] | None:
    """Σ|A| under the estimate of each group by its number, of all under −1; None without an estimate."""
    if chosen.estimate is None:
        return None
    own = choosing.column(session, chosen.estimate, columns, "total_abs")
    numbers, group = np.unique(columns.group_no, return_inverse=True)
    sums = np.bincount(group, np.where(np.isnan(own), 0.0, own), minlength=numbers.size)
    found = dict(zip(numbers.tolist(), sums.tolist(), strict=True))
    return {**found, -1: sum(found.values())}


def signals(rows: Rows, sources: Sequence[str | None]) -> tuple[NDArray[np.object_], GroupStatistics, float]:
    """What each group teaches, its statistics, and the reward above which a rollout passes."""
    names = list(dict.fromkeys(name for name in sources if name is not None))
    number = {name: place for place, name in enumerate(names)}
    code = np.array([-1 if name is None else number[name] for name in sources], np.int64)
    reward = np.where(np.isfinite(rows.reward), rows.reward, np.nan)
    count = rows.group.size
    blank, none = np.zeros(count, bool), np.full(count, None, object)
    view = View(
        index=rows.group, group=rows.group, group_ids=[""] * rows.numbers.size, reward=reward,
        nonfinite=none, length=rows.length, valid=rows.length, source=code[rows.group], sources=names,
        advantage=reward, digest=none, blank=blank, texts=blank, characters=rows.length,
        truncated=rows.length, grouped=True, fields={}, header={}, tokens=TokenFacts(), scalars={},
    )  # fmt: skip
    statistics = group_statistics(reward, rows.group, int(rows.numbers.size))
    threshold = pass_above(reward)
    return group_signal(view, statistics, threshold), statistics, threshold


def none_if_not_finite(values: NDArray[np.float64]) -> list[float | None]:
    known = np.isfinite(values)
    listed: list[float | None] = values.tolist()
    return (
        listed
        if known.all()
        else [value if there else None for value, there in zip(listed, known, strict=True)]
    )
