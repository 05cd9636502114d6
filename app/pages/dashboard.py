"""/dashboards/{id}: pinned panels, their captions and order, and the links that share them."""

from dataclasses import dataclass
from typing import Any

from app.deps import Reader, SettingsDep
from app.errors import NotFound
from app.pages.page import Page
from app.panel_views import PanelView, view
from app.panels import describe
from app.templating import Crumb
from storage import dashboards
from storage.dashboards import Link


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """`bodies` are the panels as the API takes them, in the order of `panels`."""

    title: str
    crumbs: tuple[Crumb, ...]
    id: str
    note: str
    updated: float
    panels: tuple[PanelView, ...]
    bodies: list[dict[str, Any]]
    links: tuple[Link, ...]
    share_hours: float


def build(session: Reader, settings: SettingsDep, dashboard_id: str) -> DashboardPage:
    dashboard = dashboards.get(session, dashboard_id)
    if dashboard is None:
        raise NotFound("There is no such dashboard; /dashboards lists those that there are.")
    panels = dashboards.panels(session, dashboard_id)
    return DashboardPage(
        title=dashboard.title,
        crumbs=(Crumb("Dashboards", "/dashboards"), Crumb(dashboard.title)),
        id=dashboard.id,
        note=dashboard.note,
        updated=dashboard.updated,
        panels=tuple(view(session, panel, sealed=False) for panel in panels),
        bodies=[describe(panel) for panel in panels],
        links=tuple(dashboards.links(session, dashboard_id)),
        share_hours=settings.share_hours,
    )


PAGE = Page("/dashboards/{dashboard_id}", "pages/dashboard.html", DashboardPage, build, "dashboards")
