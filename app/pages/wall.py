"""The group wall: every prompt group as a strip of its rewards, told apart by what it can teach."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app.figures.chosen import Chosen
from app.findings.statistics import group_signal, pass_above
from app.findings.view import GroupStatistics, TokenFacts, View, group_statistics
from storage.database import ReadSession
from storage.models import Batch, EstimateRollout, Prompt, Rollout

PER_PAGE = 256

#: What a group's rewards have to teach: kind -> the words under its strip.
WORDS = {
    "mixed": "",
    "near_zero": "next to no spread",
    "fail": "no signal: all fail",
    "pass": "no signal: all pass",
    "single": "a single rollout",
    "unscored": "not scored",
}
DEAD = ("fail", "pass", "single", "unscored")


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
class Wall:
    """`low`, `high`: the range of all rewards, the axis of all strips. `estimated`: weights are known."""

    cells: tuple[Cell, ...]
    total: int
    low: float
    high: float
    sort: str
    sorts: tuple[tuple[str, str], ...]
    page: int
    pages: int
    estimated: bool


#: URL name -> (words, key; the larger first, None last).
SORTS: dict[str, tuple[str, Callable[[Cell], float | None]]] = {
    "weight": ("signal Σ|A|", lambda cell: cell.weight),
    "std": ("spread σ", lambda cell: cell.std),
    "mean": ("mean reward", lambda cell: cell.mean),
    "length": ("length", lambda cell: cell.length),
    "group": ("number", lambda cell: -cell.group_no),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """What the wall reads of the rollouts, `[B]` in storage order; −1 and NaN where not recorded."""

    index: NDArray[np.int64]
    group_no: NDArray[np.int64]
    reward: NDArray[np.float64]
    length: NDArray[np.int64]


def wall(session: ReadSession, batch: Batch, chosen: Chosen, sort: str | None, page: int = 1) -> Wall:
    """One page of the wall. An unknown sort is the default: by weight, or by spread without an estimate."""
    rows = read_rows(session, batch.id)
    weights = total_abs(session, chosen, rows)
    cells = cells_of(session, batch, rows, weights)
    estimated = weights is not None
    sorts = {name: words for name, (words, _) in SORTS.items() if estimated or name != "weight"}
    name = sort if sort in sorts else next(iter(sorts))
    key = SORTS[name][1]
    cells.sort(key=lambda cell: (-value if (value := key(cell)) is not None else np.inf, cell.group_no))
    pages = max(1, -(-len(cells) // PER_PAGE))
    page = min(max(page, 1), pages)
    finite = rows.reward[np.isfinite(rows.reward)]
    return Wall(
        cells=tuple(cells[(page - 1) * PER_PAGE : page * PER_PAGE]),
        total=len(cells),
        low=float(finite.min()) if finite.size else 0.0,
        high=float(finite.max()) if finite.size else 1.0,
        sort=name,
        sorts=tuple(sorts.items()),
        page=page,
        pages=pages,
        estimated=estimated,
    )


def read_rows(session: ReadSession, batch_id: str) -> Rows:
    statement = select(Rollout.index, Rollout.group_no, Rollout.reward, Rollout.length)
    order = (Rollout.group_no, Rollout.part, Rollout.slot)
    found = session.execute(statement.where(Rollout.batch_id == batch_id).order_by(*order)).all()
    index, group_no, reward, length = zip(*found, strict=True) if found else ((), (), (), ())
    return Rows(
        np.array(index, np.int64),
        np.array(group_no, np.int64),
        np.array(reward, np.float64),
        np.array([-1 if value is None else value for value in length], np.int64),
    )


def total_abs(session: ReadSession, chosen: Chosen, rows: Rows) -> NDArray[np.float64] | None:
    """Σ|A| of each rollout under the estimate, `[B]`; None where no estimate is chosen."""
    if chosen.estimate is None:
        return None
    statement = select(EstimateRollout.index, EstimateRollout.total_abs)
    found = session.execute(statement.where(EstimateRollout.estimate_id == chosen.estimate.id))
    known = {index: value for index, value in found if value is not None}
    return np.array([known.get(index, np.nan) for index in rows.index.tolist()], np.float64)


def cells_of(
    session: ReadSession, batch: Batch, rows: Rows, weights: NDArray[np.float64] | None
) -> list[Cell]:
    """A cell per group, by group number."""
    numbers, starts = np.unique(rows.group_no, return_index=True)
    if not numbers.size:
        return []
    statement = select(Prompt.group_no, Prompt.group_id, Prompt.data_source).where(
        Prompt.batch_id == batch.id
    )
    named = {number: (group_id, source) for number, group_id, source in session.execute(statement)}
    kinds, statistics, threshold = signals(rows, numbers, [named[n][1] for n in numbers.tolist()])
    sums = None if weights is None else np.add.reduceat(np.nan_to_num(weights), starts)
    whole = 0.0 if sums is None else float(sums.sum())
    ends = [*starts[1:].tolist(), rows.group_no.size]
    cells = []
    for place, (number, start, end) in enumerate(zip(numbers.tolist(), starts.tolist(), ends, strict=True)):
        reward, length = rows.reward[start:end], rows.length[start:end]
        order = np.argsort(rows.index[start:end], kind="stable")
        weight = None if sums is None else float(sums[place])
        kind = str(kinds[place])
        cells.append(
            Cell(
                group_no=number,
                group_id=named[number][0],
                data_source=named[number][1],
                size=end - start,
                scored=int(statistics.scored[place]),
                rewards=tuple(value if np.isfinite(value) else None for value in reward[order].tolist()),
                mean=none_if_nan(statistics.mean[place]),
                std=none_if_nan(statistics.std[place]),
                passed=int((reward > threshold).sum()),
                length=float(length[length >= 0].mean()) if (length >= 0).any() else None,
                weight=weight,
                share=weight / whole if weight is not None and whole > 0 else None,
                signal=kind,
                words=WORDS[kind],
                dead=kind in DEAD,
            )
        )
    return cells


def signals(
    rows: Rows, numbers: NDArray[np.int64], sources: list[str | None]
) -> tuple[NDArray[np.object_], GroupStatistics, float]:
    """What each group teaches, its statistics, and the reward above which a rollout passes."""
    dense = np.searchsorted(numbers, rows.group_no)
    names = list(dict.fromkeys(name for name in sources if name is not None))
    code = np.array([-1 if name is None else names.index(name) for name in sources], np.int64)
    reward = np.where(np.isfinite(rows.reward), rows.reward, np.nan)
    count = rows.index.size
    blank, none = np.zeros(count, bool), np.full(count, None, object)
    view = View(
        index=rows.index, group=dense, group_ids=[""] * numbers.size, reward=reward, nonfinite=none,
        length=rows.length, valid=rows.length, source=code[dense], sources=names, advantage=reward,
        digest=none, blank=blank, texts=blank, characters=rows.length, truncated=rows.length, grouped=True,
        fields={}, header={}, tokens=TokenFacts(), scalars={},
    )  # fmt: skip
    statistics = group_statistics(reward, dense, int(numbers.size))
    threshold = pass_above(reward)
    return group_signal(view, statistics, threshold), statistics, threshold


def none_if_nan(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
