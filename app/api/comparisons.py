"""One estimate against another, or against the recorded advantages."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from app.api.comparing import over_tokens
from app.api.listing import Cursor, Limit
from app.api.lookup import Id, batch_of, estimate_of, finished, version_of
from app.api.schemas.comparisons import Comparison
from app.api.strict import StrictRoute
from app.deps import Reader
from app.errors import BadRequest, Unprocessable
from app.figures.agreement import Pair, over_rollouts, pair_of
from app.figures.chosen import RECORDED, Chosen, choose
from app.responses import etag, not_modified, respond
from storage.models import Estimate

router = APIRouter(prefix="/api/v1", tags=["estimates"], route_class=StrictRoute)

Other = Annotated[str, Path(max_length=64, description="The id of another estimate, or `recorded`.")]
Sort = Annotated[
    Literal["index", "-difference"], Query(description="Rollouts in their order, or furthest apart first.")
]


@router.get("/estimates/{estimate_id}/compare/{other_id}", response_model=Comparison)
def compare_estimates(
    request: Request,
    session: Reader,
    estimate_id: Id,
    other_id: Other,
    sort: Sort = "index",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Compare two estimates of one batch: over its rollouts, over its tokens where one has a number for each,
    and rollout by rollout."""
    first = finished(estimate_of(session, estimate_id))
    second = None if other_id == RECORDED else finished(estimate_of(session, other_id))
    batch = batch_of(session, first.batch_id)
    same_batch(first, second)
    start = place_of(cursor)
    tag = etag("compare", version_of(first), version_of(second), sort, limit, start)
    if unchanged := not_modified(request, tag):
        return unchanged
    chosen = [choose(session, batch, first.id), choose(session, batch, second.id if second else RECORDED)]
    if chosen[1].why is not None:
        raise Unprocessable("The batch has no recorded advantages to compare with. Name another estimate.")
    pair = pair_of(session, batch, *chosen)
    per_token = second is not None and bool(first.per_token or second.per_token)
    content = {
        "batch": batch.id,
        **dict(zip("ab", map(named, chosen), strict=True)),
        **over_rollouts(pair),
        "tokens": over_tokens(session, batch, first, second) if per_token and second else None,
        "rollouts": page(pair, sort, start, limit),
    }
    return respond(request, content, etag=tag)


def same_batch(first: Estimate, second: Estimate | None) -> None:
    if second is not None and second.batch_id != first.batch_id:
        raise Unprocessable(
            f"The estimates are of different batches ({first.batch_id} and {second.batch_id}), so their "
            "rollouts are not the same. Compare two of one batch."
        )


def named(chosen: Chosen) -> dict[str, Any]:
    """Which advantages these are; of the recorded ones only that they are."""
    estimate = chosen.estimate
    if estimate is None:
        return {"id": RECORDED, "convention": None, "estimator": None, "request": None, "per_token": None}
    return {
        "id": estimate.id,
        "convention": estimate.convention,
        "estimator": estimate.estimator,
        "request": estimate.request,
        "per_token": estimate.per_token,
    }


def place_of(cursor: str | None) -> int:
    """Where the page begins. Raises BadRequest."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 12:
        raise BadRequest("The cursor is damaged. Start again without one.")
    return int(cursor)


def page(pair: Pair, sort: str, start: int, limit: int) -> dict[str, Any]:
    """Some of the rollouts with both means, in the shape of every list."""
    order = pair.furthest if sort == "-difference" else np.arange(pair.index.size)
    shown = order[start : start + limit]
    columns = (pair.index, pair.a, pair.b, pair.opposite)
    rows = zip(*(column[shown].tolist() for column in columns), strict=True)
    names = ("index", "a", "b", "sign_change")
    end = start + len(shown)
    return {
        "items": [dict(zip(names, row, strict=True)) for row in rows],
        "next": str(end) if end < order.size else None,
        "total": int(order.size),
    }
