"""/dashboards: what the team keeps."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from app.deps import Reader
from app.errors import BadRequest
from app.pages.page import Page
from app.templating import Crumb
from storage import dashboards
from storage.pages import BadCursor


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    title: str
    note: str
    panels: int
    links: int
    updated: float


@dataclass(frozen=True, slots=True)
class DashboardsPage:
    title: str
    crumbs: tuple[Crumb, ...]
    rows: tuple[Row, ...]
    total: int
    next: str | None


def build(
    session: Reader, limit: Annotated[int, Query(ge=1, le=200)] = 50, cursor: str | None = None
) -> DashboardsPage:
    """Dashboards, the one changed last first."""
    try:
        page = dashboards.page(session, limit, cursor)
    except BadCursor as error:
        raise BadRequest(str(error)) from error
    counts = dashboards.counts(session, [item.id for item in page.items])
    rows = tuple(Row(item.id, item.title, item.note, *counts[item.id], item.updated) for item in page.items)
    return DashboardsPage("Dashboards", (Crumb("Dashboards"),), rows, page.total, page.next)


PAGE = Page("/dashboards", "pages/dashboards.html", DashboardsPage, build, "dashboards")
