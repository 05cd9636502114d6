"""Uploads: made, their receipt, their progress, their end."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy import Engine

from app import uploads
from app.api.events import events_of
from app.api.lookup import Id
from app.api.receiving import UploadQuery, name_of, receive
from app.api.schemas.common import accepted
from app.api.schemas.uploads import RECEIVED, UPLOAD_BODY, Receipt
from app.api.strict import StrictRoute
from app.api.waiting import ended
from app.deps import ClosingDep, EngineDep, JobsDep, PollsDep, Reader, SettingsDep, WaitersDep
from app.errors import Conflict
from app.jobs import FINAL
from app.responses import PROBLEM_JSON, dumps, respond
from app.security.limits import UPLOAD_FORM, UPLOADS
from storage.database import read
from storage.uploads import STORED_PROBLEMS

router = APIRouter(tags=["uploads"], route_class=StrictRoute)

FILENAME = "Name of the file, where the address does not give it; UTF-8."


@router.post(
    UPLOADS,
    status_code=201,
    response_model=Receipt,
    responses=RECEIVED,
    openapi_extra=UPLOAD_BODY,
)
async def create_upload(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    settings: SettingsDep,
    query: Annotated[UploadQuery, Query()],
    closing: ClosingDep,
    waiters: WaitersDep,
    x_filename: Annotated[str | None, Header(max_length=4096, description=FILENAME)] = None,
) -> Response:
    """Upload rollouts.

    The file is the raw body (any Content-Type; Content-Encoding gzip or zstd), or the form field `file`;
    several files, a zip or the files of a folder are one upload. A row that cannot be read is listed in
    `problems`; the others stand.
    """
    name = name_of(query, x_filename)
    upload_id, created, query = await receive(request, engine, jobs, settings, query, name)
    await ended(engine, "ingest", upload_id, query.wait, closing, waiters)
    return await run_in_threadpool(answer, request, engine, upload_id, created)


def answer(request: Request, engine: Engine, upload_id: str, created: bool) -> Response:
    """The receipt, with the status that says what became of it."""
    with read(engine) as session:
        body = uploads.receipt(session, upload_id)
    location = {"Location": f"{UPLOADS}/{upload_id}"}
    if body["state"] not in FINAL:
        return respond(request, body, 202, location)
    if body["state"] == "succeeded":
        return respond(request, body, 201 if created and not body["duplicate_of"] else 200, location)
    status = 422 if body["state"] == "failed" else 409
    said = {
        "type": f"urn:vantage:upload-{body['state']}",
        "title": "Nothing of the upload could be read" if status == 422 else "The upload was cancelled",
        "status": status,
        "detail": body["error"] or "Upload it again.",
    }
    return Response(dumps({**body, **said}), status, location, PROBLEM_JSON)


@router.post(UPLOAD_FORM, include_in_schema=False)
async def upload_form(request: Request, engine: EngineDep, jobs: JobsDep, settings: SettingsDep) -> Response:
    """The page's form where no script runs: the same upload, answered by its receipt's page."""
    upload_id, _, _ = await receive(request, engine, jobs, settings, UploadQuery(), "upload")
    return RedirectResponse(f"/uploads/{upload_id}", 303)


Problems = Annotated[
    int, Query(ge=0, le=STORED_PROBLEMS, description="Most problems to list; all are counted.")
]


@router.get(f"{UPLOADS}/{{upload_id}}", response_model=Receipt)
def get_upload(request: Request, session: Reader, upload_id: Id, problems: Problems = 200) -> Response:
    """The receipt of an upload: what was recognised, accepted, rejected and why."""
    return respond(request, uploads.receipt(session, upload_id, problems))


@router.delete(
    f"{UPLOADS}/{{upload_id}}",
    response_model=Receipt,
    responses=accepted(Receipt, "It is being read and stops at its next chunk."),
)
def cancel_upload(request: Request, engine: EngineDep, jobs: JobsDep, upload_id: Id) -> Response:
    """Cancel an upload that is not read yet. Nothing of it becomes visible."""
    state = uploads.cancel(engine, jobs, upload_id)
    if state in ("succeeded", "failed"):
        raise Conflict(
            f"The upload has {state} already, so there is nothing to cancel. "
            "DELETE /api/v1/batches/{id} deletes a batch that it made."
        )
    with read(engine) as session:
        body = uploads.receipt(session, upload_id)
    return respond(request, body, 200 if state == "cancelled" else 202)


def existing(session: Reader, upload_id: Id) -> str:
    """Raises NotFound before an event stream has begun."""
    uploads.receipt(session, upload_id, 0)
    return upload_id


@router.get(f"{UPLOADS}/{{upload_id}}/events", response_class=EventSourceResponse)
async def upload_events(
    engine: EngineDep, polls: PollsDep, upload_id: Annotated[str, Depends(existing)]
) -> AsyncIterator[ServerSentEvent]:
    """Follow an upload: server-sent `progress` events with state, stage, rows, bytes, rows per second, time
    left."""
    async for event in events_of(polls, engine, "ingest", upload_id):
        yield event
