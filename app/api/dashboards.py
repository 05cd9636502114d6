"""Dashboards over REST: made, read, changed, deleted, and exported as one offline file."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import HTMLResponse

from app import export, sharing
from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import Id
from app.api.strict import StrictRoute
from app.deps import Reader, Writer
from app.errors import AppError, NotFound
from app.panels import DashboardBody, DashboardChanges, columns, describe
from app.responses import etag, matches_any, respond
from storage import dashboards
from storage.database import AnySession
from storage.models import Dashboard

router = APIRouter(prefix="/api/v1/dashboards", tags=["dashboards"], route_class=StrictRoute)


HideText = Annotated[bool, Query(description="Leave out prompts, responses and token texts.")]


class Changed(AppError):
    status = 412
    title = "Changed in the meantime"


def find(session: AnySession, dashboard_id: str) -> Dashboard:
    """Raises NotFound."""
    dashboard = dashboards.get(session, dashboard_id)
    if dashboard is None:
        raise NotFound(
            f"There is no dashboard with the id {dashboard_id!r}; GET /api/v1/dashboards lists them."
        )
    return dashboard


def tag_of(dashboard: Dashboard) -> str:
    return etag("dashboard", dashboard.id, repr(dashboard.updated))


def heading(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "id": dashboard.id,
        "title": dashboard.title,
        "note": dashboard.note,
        "created": dashboard.created,
        "updated": dashboard.updated,
    }


def body_of(session: AnySession, dashboard: Dashboard) -> dict[str, Any]:
    return {
        **heading(dashboard),
        "panels": [describe(panel) for panel in dashboards.panels(session, dashboard.id)],
    }


@router.get("")
def list_dashboards(request: Request, session: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Dashboards, the one changed last first."""
    with asked(cursor):
        page = dashboards.page(session, limit, cursor)
    return respond(request, listed(page, heading))


@router.post("", status_code=201)
def create_dashboard(request: Request, session: Writer, body: DashboardBody) -> Response:
    """Make a dashboard, with panels or without."""
    rows = columns(session, body.panels)
    dashboard = dashboards.create(session, body.title, body.note)
    dashboards.replace_panels(session, dashboard.id, rows)
    session.refresh(dashboard)
    location = {"Location": f"/api/v1/dashboards/{dashboard.id}"}
    return respond(request, body_of(session, dashboard), 201, location, tag_of(dashboard))


@router.get("/{dashboard_id}")
def get_dashboard(request: Request, session: Reader, dashboard_id: Id) -> Response:
    """A dashboard and what its panels are; what they show is in its export and at the figures' addresses."""
    dashboard = find(session, dashboard_id)
    return respond(request, body_of(session, dashboard), etag=tag_of(dashboard))


@router.patch("/{dashboard_id}")
def change_dashboard(
    request: Request,
    session: Writer,
    dashboard_id: Id,
    body: Annotated[DashboardChanges, Body()],
    if_match: Annotated[str | None, Header(description="Only if the dashboard still has this ETag.")] = None,
) -> Response:
    """Change title, note or panels. `panels` replaces all of them."""
    dashboard = dashboards.get(session, dashboard_id, lock=True) or find(session, dashboard_id)
    if if_match is not None and not matches_any(if_match, tag_of(dashboard)):
        raise Changed(
            "Somebody changed the dashboard since you read it. Read it again and repeat your change."
        )
    if body.panels is not None:
        dashboards.replace_panels(session, dashboard_id, columns(session, body.panels))
    dashboards.revise(session, dashboard_id, title=body.title, note=body.note)
    session.expire_all()
    dashboard = find(session, dashboard_id)
    return respond(request, body_of(session, dashboard), etag=tag_of(dashboard))


@router.delete("/{dashboard_id}", status_code=204)
def delete_dashboard(session: Writer, dashboard_id: Id) -> Response:
    """Delete a dashboard with its panels; its links show nothing from then on."""
    find(session, dashboard_id)
    dashboards.delete(session, dashboard_id)
    return Response(status_code=204)


@router.get("/{dashboard_id}/export.html", response_class=HTMLResponse)
def export_dashboard(session: Reader, dashboard_id: Id, hide_text: HideText = False) -> Response:
    """The dashboard as one HTML file that opens offline. It holds the panels' data."""
    dashboard = find(session, dashboard_id)
    shown = sharing.present(session, dashboard, hide_text)
    html = export.document(shown)
    headers = {"Content-Disposition": f'attachment; filename="{export.file_name(dashboard.title)}"'}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)
