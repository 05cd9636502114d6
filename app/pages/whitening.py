"""`/batches/{id}/whitening`: what did the scope do to this step?"""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from app.deps import Reader
from app.errors import BadRequest
from app.figures import FIGURES
from app.figures.offsets import TaskOffsets
from app.figures.scopes import LABELS, SCOPES
from app.pages.advantages import Picker, pick
from app.pages.batch import find_batch, way_below
from app.pages.page import Page
from app.pages.run import ChartOf
from app.pages.scope_tables import MatrixCell, Tables, Unit, tables
from app.templating import Crumb, with_query
from storage.models import Batch

MOST_LISTED = 200


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
    picker, chosen = pick(session, batch, estimate)
    options = options_of(picker.used.key, first, second, unit, source)
    shown = tables(session, batch, chosen, options, tasks)
    meta = shown.meta
    place = cell_named(shown, cell)
    return WhiteningPage(
        title="Whitening",
        crumbs=(*way_below(session, batch, picker.used.key), Crumb("whitening")),
        batch_id=batch.id,
        picker=picker,
        chart=chart_of(batch, options),
        matrix_src=address(batch, "sign_flips", options),
        options={name: value for name, value in options.items() if name != "estimate"},
        scopes=tuple((scope, LABELS[scope]) for scope in SCOPES),
        first=str(meta.get("from", first or "group")),
        second=str(meta.get("to", second or "batch")),
        unit=unit or "",
        source=source or "",
        matrix=shown.matrix,
        why=meta["empty"],
        sentence=str(meta["sentence"]),
        cell=None if place is None else place.key,
        listed=rollouts_in(meta, place),
        units=shown.units,
        tasks=shown.tasks,
        task_scope=tasks,
    )


def options_of(
    estimate: str | None, first: str | None, second: str | None, unit: str | None, source: str | None
) -> dict[str, str]:
    """The options of the page's figures that the address gives."""
    asked = {"estimate": estimate, "from": first, "to": second, "unit": unit, "source": source}
    return {name: value for name, value in asked.items() if value}


def cell_named(shown: Tables, key: str | None) -> MatrixCell | None:
    """The cell of the matrix that the address names. Raises BadRequest where there is none such."""
    place = next((each for row in shown.matrix for each in row if each.key == key), None)
    if key is not None and shown.matrix and place is None:
        raise BadRequest("The address names no cell of the matrix; choose one on the page.")
    return place


def chart_of(batch: Batch, options: dict[str, str]) -> ChartOf:
    name = "whitening_scopes"
    return ChartOf(name, FIGURES[name].title, address(batch, name, options))


def address(batch: Batch, figure: str, options: dict[str, str]) -> str:
    return f"/api/v1/batches/{batch.id}/figures/{figure}{with_query('', **options)}"


def rollouts_in(meta: dict[str, Any], cell: MatrixCell | None) -> tuple[int, ...]:
    """The first rollouts of the cell."""
    if cell is None:
        return ()
    return tuple(meta["rollouts"][int(cell.key[0])][int(cell.key[1])][:MOST_LISTED])


PAGE = Page("/batches/{batch_id}/whitening", "pages/whitening.html", WhiteningPage, build, "runs")
