"""Prompt groups of a batch."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import GroupId, Id, batch_of, estimate_in, group_of, version_of
from app.api.rollouts import EstimateId
from app.api.schemas.data import GroupDetail, GroupPage
from app.api.strict import StrictRoute
from app.deps import Reader
from app.responses import etag, not_modified, respond
from storage import groups, rollouts
from storage.database import AnySession
from storage.groups import GroupRow
from storage.models import Batch, Estimate, Prompt
from storage.rollouts import Filter

router = APIRouter(prefix="/api/v1/batches/{batch_id}/groups", tags=["batches"], route_class=StrictRoute)

DDOF = 1


@router.get("", response_model=GroupPage)
def list_groups(
    request: Request,
    session: Reader,
    batch_id: Id,
    sort: Annotated[
        str,
        Query(
            max_length=32,
            description="`group_no`, `reward_mean`, `reward_std`, `size`, or `total_abs` of an estimate; "
            "`-` in front: descending.",
        ),
    ] = "group_no",
    estimate: EstimateId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the prompt groups of a batch with the statistics of their rewards."""
    batch = batch_of(session, batch_id)
    chosen = estimate_in(session, batch, estimate)
    tag = etag("groups", batch.id, version_of(chosen), sort, limit, cursor)
    if unchanged := not_modified(request, tag):
        return unchanged
    with asked(cursor):
        page = groups.page(session, batch.id, sort, limit, cursor, None if chosen is None else chosen.id)
    return respond(request, listed(page, lambda row: group_item(batch, row)), etag=tag)


def group_item(batch: Batch, row: GroupRow) -> dict[str, Any]:
    return {**common(batch, row), "total_abs": row.total_abs, "excerpt": row.excerpt}


def common(batch: Batch, row: GroupRow | Prompt) -> dict[str, Any]:
    """What a group shows in the list and alone."""
    return {
        "group_no": row.group_no,
        "group_id": row.group_id,
        "data_source": row.data_source,
        "size": row.size,
        "scored": row.scored,
        "mean": row.reward_mean,
        "std": row.reward_std,
        "ddof": DDOF,
        "min": row.reward_min,
        "max": row.reward_max,
        "signal": signal(batch, row),
    }


def signal(batch: Batch, row: GroupRow | Prompt) -> str:
    """What the group's rewards have to teach: `mixed` something, the others nothing, and why."""
    if row.scored < 2:
        return "single" if row.scored else "unscored"
    if row.reward_min != row.reward_max:
        return "mixed"
    threshold = batch.statistics.get("pass_above") or 0.0
    return "pass" if (row.reward_mean or 0.0) > threshold else "fail"


@router.get("/{group_id:path}", response_model=GroupDetail)
def get_group(
    request: Request, session: Reader, batch_id: Id, group_id: GroupId, estimate: EstimateId = None
) -> Response:
    """A prompt group: size, rewards, mean, std, signal and members, in the order of the file."""
    batch = batch_of(session, batch_id)
    chosen = estimate_in(session, batch, estimate)
    tag = etag("group", batch.id, group_id, version_of(chosen))
    if unchanged := not_modified(request, tag):
        return unchanged
    return respond(request, describe(session, batch, group_of(session, batch, group_id), chosen), etag=tag)


def describe(session: AnySession, batch: Batch, group: Prompt, chosen: Estimate | None) -> dict[str, Any]:
    narrowed = Filter(group_no=group.group_no)
    rows = rollouts.page(
        session, batch.id, None if chosen is None else chosen.id, "index", narrowed, None, max(group.size, 1)
    ).items
    odd = {str(place): row.reward_nonfinite for place, row in enumerate(rows) if row.reward_nonfinite}
    shown = ("index", "row", "reward", "length", "valid", "finish_reason", "advantage")
    return {
        **common(batch, group),
        "origin": batch.fields.get("group_id", "recorded"),
        "prompt": group.prompt,
        "messages": group.messages,
        "rewards": [row.reward for row in rows],
        "nonfinite": odd,
        "members": [{name: getattr(row, name) for name in shown} for row in rows],
    }
