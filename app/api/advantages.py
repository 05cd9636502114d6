"""The numbers of an estimate: of one rollout as JSON, of the whole batch as a file."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from app.api.downloads import DownloadResponse
from app.api.lookup import MOST_INDEX, Id, batch_of, estimate_of, finished, rollout_of, version_of
from app.api.schemas.common import binary
from app.api.schemas.estimates import Advantages
from app.api.strict import StrictRoute
from app.api.tables import MEDIA_TYPES, stream
from app.api.token_values import of_rollout
from app.deps import EngineDep, Reader, SettingsDep
from app.errors import BadRequest
from app.responses import arrays, etag, not_modified, respond
from storage import batches
from storage.database import AnySession
from storage.models import Batch, Estimate

router = APIRouter(prefix="/api/v1", tags=["estimates"], route_class=StrictRoute)

Format = Literal["parquet", "npz", "arrow", "jsonl"]


@router.get(
    "/estimates/{estimate_id}/advantages",
    response_model=Advantages,
    responses=binary(
        *MEDIA_TYPES.values(), text="One rollout as JSON, or with `format` the whole batch as a file."
    ),
)
def get_advantages(
    request: Request,
    session: Reader,
    engine: EngineDep,
    settings: SettingsDep,
    estimate_id: Id,
    rollout: Annotated[int | None, Query(ge=0, le=MOST_INDEX, description="Index of one rollout.")] = None,
    format: Annotated[
        Format | None, Query(description="The whole batch, streamed, one row per rollout.")
    ] = None,
) -> Response:
    """Advantages per response token before and after whitening, of one rollout or of the whole batch."""
    estimate = finished(estimate_of(session, estimate_id))
    if (rollout is None) == (format is None):
        raise BadRequest(
            "Say which: rollout=I for one rollout, or format=parquet|npz|arrow|jsonl for all of them."
        )
    tag = etag("advantages", version_of(estimate), rollout, format)
    if unchanged := not_modified(request, tag):
        return unchanged
    if format is not None:
        name = f'attachment; filename="advantages-{estimate.id}.{format}"'
        headers = {"ETag": tag, "Content-Disposition": name, "Cache-Control": "private, no-cache"}
        make = partial(stream, engine, estimate.id, format)
        return DownloadResponse(make, settings.spool_dir, headers, MEDIA_TYPES[format])
    batch = batch_of(session, estimate.batch_id)
    return respond(request, one(session, batch, estimate, rollout or 0), etag=tag)


def one(session: AnySession, batch: Batch, estimate: Estimate, index: int) -> dict[str, Any]:
    rollout = rollout_of(session, batch, index)
    group = batches.group(session, batch.id, rollout.group_no)
    assert group is not None
    values = of_rollout(session, estimate, rollout)
    return {"index": index, "group_id": group.group_id, **arrays(values)}
