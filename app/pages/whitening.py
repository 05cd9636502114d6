"""`/batches/{id}/whitening`: what did the scope do to this step?"""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from app.deps import Reader
from app.errors import BadRequest
from app.figures import FIGURES
from app.figures.offsets import TaskOffsets, task_offsets
from app.figures.scopes import LABELS, SCOPES
from app.pages.advantages import Picker, pick
from app.pages.batch import find_batch, name_of, way_to
from app.pages.page import Page
from app.pages.run import ChartOf
from app.templating import Crumb, with_query
from storage.database import ReadSession
from storage.models import Batch, Run

SIGNS = ("−", "0", "+")
UNITS = (("response", "each response once"), ("token", "each token once"))
MOST_LISTED = 200


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
class WhiteningPage:
    """`matrix`: rows by the sign before, columns by the sign after; empty where `why` says why. `listed`: the
    rollouts of the cell in the URL."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    picker: Picker
    chart: ChartOf
    matrix_src: str
    options: dict[str, str]
    scopes: tuple[tuple[str, str], ...]
    first: str
    second: str
    unit: str
    source: str
    matrix: tuple[tuple[MatrixCell, ...], ...]
    why: str | None
    sentence: str
    cell: str | None
    listed: tuple[int, ...]
    units: tuple[Unit, ...]
    tasks: TaskOffsets
    task_scope: str


def build(
    session: Reader,
    batch_id: str,
    estimate: str | None = None,
    first: Annotated[str | None, Query(alias="from")] = None,
    second: Annotated[str | None, Query(alias="to")] = None,
    unit: str | None = None,
    source: str | None = None,
    tasks: str = "batch",
    cell: str | None = None,
) -> WhiteningPage:
    batch = find_batch(session, batch_id)
    picker, _ = pick(session, batch, estimate)
    asked = {"estimate": picker.used.key, "from": first, "to": second, "unit": unit, "source": source}
    options = {name: value for name, value in asked.items() if value}
    flips = FIGURES["sign_flips"].build(session, batch, options)
    meta: dict[str, Any] = flips["layout"]["meta"]
    matrix = matrix_of(meta)
    place = next((each for row in matrix for each in row if each.key == cell), None)
    if cell is not None and matrix and place is None:
        raise BadRequest("The address names no cell of the matrix; choose one on the page.")
    common = {name: value for name, value in options.items() if name in ("estimate", "unit", "source")}
    return WhiteningPage(
        title="Whitening",
        crumbs=(
            *way_to(session.get_one(Run, batch.run_id)),
            Crumb(name_of(batch), f"/batches/{batch.id}{with_query('', estimate=picker.used.key)}"),
            Crumb("whitening"),
        ),
        batch_id=batch.id,
        picker=picker,
        chart=ChartOf(
            "whitening_scopes", FIGURES["whitening_scopes"].title, address(batch, "whitening_scopes", options)
        ),
        matrix_src=address(batch, "sign_flips", options),
        options={name: value for name, value in options.items() if name != "estimate"},
        scopes=tuple((scope, LABELS[scope]) for scope in SCOPES),
        first=str(meta.get("from", first or "group")),
        second=str(meta.get("to", second or "batch")),
        unit=unit or "",
        source=source or "",
        matrix=matrix,
        why=meta["empty"],
        sentence=str(meta["sentence"]),
        cell=None if place is None else place.key,
        listed=rollouts_in(meta, place),
        units=tuple(unit_of(session, batch, options, key, words) for key, words in UNITS),
        tasks=task_offsets(session, batch, {**common, "scope": tasks}),
        task_scope=tasks,
    )


def address(batch: Batch, figure: str, options: dict[str, str]) -> str:
    return f"/api/v1/batches/{batch.id}/figures/{figure}{with_query('', **options)}"


def matrix_of(meta: dict[str, Any]) -> tuple[tuple[MatrixCell, ...], ...]:
    counts = meta.get("counts")
    if meta["empty"] is not None or counts is None:
        return ()
    return tuple(
        tuple(
            MatrixCell(SIGNS[i], SIGNS[j], f"{i}{j}", counts[i][j], abs(i - j) == 2, i != j) for j in range(3)
        )
        for i in range(3)
    )


def rollouts_in(meta: dict[str, Any], cell: MatrixCell | None) -> tuple[int, ...]:
    """The first rollouts of the cell."""
    if cell is None:
        return ()
    return tuple(meta["rollouts"][int(cell.key[0])][int(cell.key[1])][:MOST_LISTED])


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


PAGE = Page("/batches/{batch_id}/whitening", "pages/whitening.html", WhiteningPage, build, "runs")
