"""A whole batch as canonical rows, streamed: what was recorded, and beside it what an estimate computed."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Engine

from app.api.downloads import DownloadResponse
from app.api.lookup import Id, batch_of, estimate_in, rollout_of, run_names, version_of
from app.api.schemas.common import binary
from app.api.strict import StrictRoute
from app.api.token_values import of_rollout
from app.deps import EngineDep, Reader, SettingsDep
from app.recorded_rows import plain_values, rows_of
from app.responses import dumps, etag, not_modified
from storage.database import AnySession, read
from storage.models import Batch, Estimate

router = APIRouter(prefix="/api/v1/batches/{batch_id}", tags=["batches"], route_class=StrictRoute)

JSONL = "application/x-ndjson"
CHUNK = 64
#: Name of a computed value in a row -> in the estimate. Rows that are read back keep them as extras.
COMPUTED = {
    "computed_advantages": "advantages",
    "computed_advantages_raw": "advantages_raw",
    "computed_returns": "returns",
}


@router.get(
    "/rows",
    response_class=StreamingResponse,
    responses=binary(JSONL, text="Canonical JSONL, header line first."),
)
def get_rows(
    request: Request,
    session: Reader,
    engine: EngineDep,
    settings: SettingsDep,
    batch_id: Id,
    estimate: Annotated[
        str | None, Query(max_length=64, description="Id of the estimate whose values go along.")
    ] = None,
) -> Response:
    """Give every rollout of a batch as a canonical row, in the order of the batch; uploading them again gives
    the same batch. With `estimate`, its values per token stand in `computed_advantages`,
    `computed_advantages_raw` and `computed_returns`."""
    batch = batch_of(session, batch_id)
    chosen = estimate_in(session, batch, estimate)
    tag = etag("rows", batch.id, version_of(chosen))
    if unchanged := not_modified(request, tag):
        return unchanged
    headers = {
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f'attachment; filename="{batch.id}.jsonl"',
    }
    lines = partial(stream, engine, batch.id, None if chosen is None else chosen.id)
    return DownloadResponse(lines, settings.spool_dir, headers, JSONL)


def stream(engine: Engine, batch_id: str, estimate_id: str | None) -> Iterator[bytes]:
    """The lines, all from one snapshot."""
    with read(engine) as session:
        batch = batch_of(session, batch_id)
        estimate = estimate_in(session, batch, estimate_id)
        yield dumps({"_header": header(session, batch, estimate)}) + b"\n"
        for start in range(0, batch.rollouts, CHUNK):
            indexes = range(start, min(start + CHUNK, batch.rollouts))
            rows = rows_of(session, batch, indexes)
            if estimate is not None:
                for index, row in zip(indexes, rows, strict=True):
                    row |= computed(session, batch, estimate, index)
            yield b"".join(dumps(row) + b"\n" for row in rows)


def header(session: AnySession, batch: Batch, estimate: Estimate | None) -> dict[str, Any]:
    """The file's own, with where the fields come from and what was computed."""
    derived = {name: origin for name, origin in batch.fields.items() if str(origin).startswith("derived:")}
    made: dict[str, Any] = {"schema": "rollout-batch", "version": 1, **batch.header}
    made["run"] = run_names(session, [batch.run_id])[batch.run_id]
    made["provenance"] = derived
    return made | ({} if estimate is None else {"computed": estimate.request})


def computed(session: AnySession, batch: Batch, estimate: Estimate, index: int) -> dict[str, Any]:
    """The estimate's values of a rollout; non-finite ones are null here and named."""
    values = of_rollout(session, estimate, rollout_of(session, batch, index))
    made: dict[str, Any] = {}
    for name, theirs in COMPUTED.items():
        found = values.get(theirs)
        if found is not None:
            made[name] = plain_values(found)[0]
    return made
