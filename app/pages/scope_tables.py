"""What the page of whitening scopes shows beside its chart: the sign matrix, every scope, the tasks.

Reading thousands of rollouts several times takes a while, and neither a batch nor a finished estimate ever
changes; so the last few tables are kept, by all that they depend on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from app.figures import FIGURES
from app.figures.chosen import Chosen
from app.figures.offsets import TaskOffsets, task_offsets
from app.figures.scopes import LABELS
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch

SIGNS = ("−", "0", "+")
UNITS = (("response", "each response once"), ("token", "each token once"))

_KEPT: Kept[tuple[object, ...], "Tables"] = Kept(16)


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """Rollouts whose sign is `before` under the one scope and `after` under the other."""

    before: str
    after: str
    key: str
    count: int
    flips: bool
    changes: bool


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One scope under one way of counting: mean and std (ddof 1) of what it makes of the rollouts, signs."""

    scope: str
    label: str
    n: int
    mean: float | None
    std: float | None
    negative: int
    zero: int
    positive: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One way of counting, with every scope there is under it; `absent`: the others, and why they are not."""

    key: str
    words: str
    scopes: tuple[ScopeLine, ...]
    absent: tuple[tuple[str, str], ...]
    flips: int | None
    n: int


@dataclass(frozen=True, slots=True)
class Tables:
    """`meta` is of the figure `sign_flips`: sentence, empty, from, to, counts, rollouts of each cell."""

    meta: dict[str, Any]
    matrix: tuple[tuple[MatrixCell, ...], ...]
    units: tuple[Unit, ...]
    tasks: TaskOffsets


def tables(session: ReadSession, batch: Batch, chosen: Chosen, options: dict[str, str], scope: str) -> Tables:
    """`options` are those of the figures; `scope` is the one of the table of tasks. Raises BadRequest."""
    finished = None if chosen.estimate is None else chosen.estimate.finished
    key = (batch.id, finished, tuple(sorted(options.items())), scope, earlier(session, batch))
    return _KEPT.get(key, lambda: compute(session, batch, options, scope))


def earlier(session: ReadSession, batch: Batch) -> tuple[object, ...]:
    """Changes when another batch of an earlier step comes or goes: the running scope sees those."""
    if batch.step is None:
        return ()
    statement = select(func.count(), func.max(Batch.created), func.min(Batch.created)).where(
        Batch.run_id == batch.run_id, Batch.state == "ready", Batch.step < batch.step
    )
    return tuple(session.execute(statement).one())


def compute(session: ReadSession, batch: Batch, options: dict[str, str], scope: str) -> Tables:
    meta = FIGURES["sign_flips"].build(session, batch, options)["layout"]["meta"]
    common = {name: value for name, value in options.items() if name in ("estimate", "unit", "source")}
    return Tables(
        meta=meta,
        matrix=matrix_of(meta),
        units=tuple(unit_of(session, batch, options, key, words) for key, words in UNITS),
        tasks=task_offsets(session, batch, {**common, "scope": scope}),
    )


def matrix_of(meta: dict[str, Any]) -> tuple[tuple[MatrixCell, ...], ...]:
    counts = meta.get("counts")
    return () if meta["empty"] is not None or counts is None else matrix_of_counts(counts)


def matrix_of_counts(counts: Sequence[Sequence[int]]) -> tuple[tuple[MatrixCell, ...], ...]:
    """Rows − 0 + before, columns − 0 + after."""
    return tuple(
        tuple(
            MatrixCell(SIGNS[i], SIGNS[j], f"{i}{j}", counts[i][j], abs(i - j) == 2, i != j) for j in range(3)
        )
        for i in range(3)
    )


def unit_of(session: ReadSession, batch: Batch, options: dict[str, str], key: str, words: str) -> Unit:
    """Every scope's summary where the unit counts once."""
    figure = FIGURES["whitening_scopes"].build(session, batch, {**options, "unit": key})
    meta = figure["layout"]["meta"]
    lines = tuple(
        ScopeLine(
            label=LABELS[summary["scope"]],
            **{name: summary[name] for name in ScopeLine.__slots__ if name != "label"},
        )
        for summary in meta.get("scopes", [])
    )
    absent = tuple((LABELS[scope], why) for scope, why in meta.get("absent", {}).items())
    return Unit(key, words, lines, absent, meta.get("flipped"), int(meta.get("n", 0)))
