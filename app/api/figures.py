"""Figures of batches and runs as Plotly JSON."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.listing import whole
from app.api.lookup import Id, RunKey, batch_of, run_of, version_of
from app.api.schemas.estimates import FigurePage, PlotlyFigure
from app.api.strict import StrictRoute
from app.deps import Reader
from app.errors import BadRequest, NotFound
from app.figures import FIGURES
from app.figures.figure import Figure
from app.responses import etag, not_modified, respond
from storage import estimates

router = APIRouter(prefix="/api/v1", tags=["figures"], route_class=StrictRoute)

Name = Annotated[
    str, Path(max_length=64, description="A name of GET /api/v1/figures.", examples=["token_heatmap"])
]
#: Only for the document: every figure has its own options, and reads them from the address itself.
EstimateId = Annotated[
    str | None,
    Query(
        max_length=64,
        description="Id of an estimate of the batch, or `recorded`. Further options: GET /api/v1/figures.",
    ),
]


@router.get("/figures", response_model=FigurePage)
def list_figures(request: Request) -> Response:
    """List the figures: what each shows, what it needs, its options."""
    return respond(request, whole([figure.describe() for figure in FIGURES.values()]))


@router.get("/batches/{batch_id}/figures/{name}", response_model=PlotlyFigure)
def get_batch_figure(
    request: Request, session: Reader, batch_id: Id, name: Name, estimate: EstimateId = None
) -> Response:
    """A figure of a batch."""
    batch = batch_of(session, batch_id)
    figure = figure_of(name, "batch")
    options = options_of(request)
    versions = [version_of(row) for row in estimates.of_batch(session, batch.id)]
    tag = etag("figure", name, batch.id, sorted(options.items()), versions)
    return not_modified(request, tag) or respond(request, figure.build(session, batch, options), etag=tag)


@router.get("/runs/{run:path}/figures/{name}", response_model=PlotlyFigure)
def get_run_figure(request: Request, session: Reader, run: RunKey, name: Name) -> Response:
    """A figure of a run, over its steps. Further options: GET /api/v1/figures."""
    found = run_of(session, run)
    return respond(request, figure_of(name, "run").build(session, found, options_of(request)))


def figure_of(name: str, scope: str) -> Figure:
    """Raises NotFound with the names of that scope."""
    figure = FIGURES.get(name)
    if figure is not None and figure.scope == scope:
        return figure
    if figure is not None:
        raise NotFound(f"{name} is a figure of a {figure.scope}, not of a {scope}. Ask for it there.")
    known = ", ".join(figure.name for figure in FIGURES.values() if figure.scope == scope)
    raise NotFound(f"There is no figure {name!r}. Figures of a {scope}: {known}.")


def options_of(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for option, value in request.query_params.multi_items():
        if option in options:
            raise BadRequest(f"The option {option[:64]!r} is given twice. Give it once.")
        options[option] = value
    return options
