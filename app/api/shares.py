"""Links to dashboards over REST: made, listed, withdrawn. A token is shown once, when its link is made."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app import sharing
from app.api.dashboards import find
from app.api.listing import whole
from app.api.lookup import Id
from app.api.strict import StrictRoute
from app.deps import EngineDep, Reader, SettingsDep, VisitsDep, Writer
from app.errors import NotFound
from app.responses import respond
from app.visits import Visits
from storage import dashboards
from storage.dashboards import Link
from storage.database import read
from storage.models import Share

router = APIRouter(prefix="/api/v1", tags=["dashboards"], route_class=StrictRoute)


class ShareBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    expires_in_hours: float | None = Field(
        None, description="Life of the link; VANTAGE_SHARE_HOURS unless given."
    )
    snapshot: bool = Field(
        False, description="Keep the panels as they are now, whatever happens to the data."
    )
    hide_text: bool = Field(default=False, description="Leave out prompts, responses and token texts.")


def describe(share: Share | Link) -> dict[str, Any]:
    return {
        "id": share.id,
        "created_at": moment(share.created),
        "expires_at": moment(share.expires),
        "last_used_at": moment(share.last_used),
        "uses": share.uses,
        "hide_text": share.hide_text,
        "snapshot": share.snapshot not in (None, False),
    }


def with_visits(link: Link, visits: Visits) -> Link:
    """The link with the visits that are not written yet."""
    number, last = visits.of(link.id)
    return replace(link, uses=link.uses + number, last_used=last or link.last_used)


def moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@router.post("/dashboards/{dashboard_id}/shares", status_code=201)
def create_share(
    request: Request,
    engine: EngineDep,
    session: Writer,
    settings: SettingsDep,
    dashboard_id: Id,
    body: ShareBody | None = None,
) -> Response:
    """Make a link that shows this dashboard, read-only, until it expires or is withdrawn."""
    body = body or ShareBody.model_validate({})
    seconds = sharing.lifetime(body.expires_in_hours, settings)
    frozen = None
    if body.snapshot:
        with read(engine) as reading:
            frozen = sharing.freeze(sharing.present(reading, find(reading, dashboard_id), body.hide_text))
    # The writer's transaction begins here, with its first statement: drawing a snapshot keeps nobody waiting.
    find(session, dashboard_id)
    share, token = sharing.create(session, dashboard_id, seconds, body.hide_text, frozen)
    shown = describe(share)
    made = {**shown, "token": token, "url": f"{request.base_url}s/{token}"}
    return respond(request, made, 201, {"Cache-Control": "no-store"})


@router.get("/dashboards/{dashboard_id}/shares")
def list_shares(request: Request, session: Reader, visits: VisitsDep, dashboard_id: Id) -> Response:
    """The live links of a dashboard, newest first. Their tokens are not known to the server."""
    live = dashboards.links(session, find(session, dashboard_id).id)
    return respond(request, whole([describe(with_visits(share, visits)) for share in live]))


@router.delete("/shares/{share_id}", status_code=204)
def withdraw_share(session: Writer, share_id: Id) -> Response:
    """Withdraw a link. It shows nothing from now on."""
    if not dashboards.withdraw_share(session, share_id):
        raise NotFound("There is no such link, or it was withdrawn already.")
    return Response(status_code=204)
