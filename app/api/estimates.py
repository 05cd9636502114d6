"""Asking for estimates, and what became of them."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.api.events import events_of
from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import Id, batch_of, estimate_of, version_of
from app.api.outcomes import answer, cancel
from app.api.schemas.common import accepted, responses
from app.api.schemas.estimates import EstimateBody, EstimateDetail, EstimatePage
from app.api.strict import StrictRoute
from app.api.waiting import Wait, ended
from app.deps import ClosingDep, EngineDep, JobsDep, PollsDep, Reader, WaitersDep, Writer
from app.errors import Conflict
from app.estimation import describe, request_estimate
from app.jobs import FINAL
from app.responses import etag, not_modified, respond
from storage import estimates
from storage.database import read

router = APIRouter(prefix="/api/v1", tags=["estimates"], route_class=StrictRoute)

ESTIMATES = "/api/v1/estimates"


@router.get("/batches/{batch_id}/estimates", response_model=EstimatePage)
def list_estimates(
    request: Request, session: Reader, batch_id: Id, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List the estimates of a batch, newest first; those that Vantage asked for itself are `default`."""
    batch = batch_of(session, batch_id)
    with asked(cursor):
        page = estimates.page(session, batch.id, limit, cursor)
    return respond(request, listed(page, lambda row: describe(session, row.id)))


@router.post(
    "/batches/{batch_id}/estimates",
    status_code=201,
    response_model=EstimateDetail,
    responses=responses({200: "The same request was made before.", 202: "Not computed yet."}, EstimateDetail),
)
async def create_estimate(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    closing: ClosingDep,
    waiters: WaitersDep,
    batch_id: Id,
    body: EstimateBody,
    wait: Wait = 0,
) -> Response:
    """Estimate advantages. The same request on the same batch is the same estimate."""
    asked_for = body.model_dump(exclude_none=True)
    estimate_id, created = await run_in_threadpool(request_estimate, engine, jobs, batch_id, asked_for)
    await ended(engine, "estimate", estimate_id, wait, closing, waiters)
    return await run_in_threadpool(
        answer, request, engine, "estimate", estimate_id, describe, ESTIMATES, created
    )


@router.get("/estimates/{estimate_id}", response_model=EstimateDetail)
def get_estimate(request: Request, session: Reader, estimate_id: Id) -> Response:
    """An estimate: request, state, progress, device, timing, and a summary before and after whitening."""
    estimate = estimate_of(session, estimate_id)
    if estimate.state not in FINAL:
        return respond(request, describe(session, estimate_id))
    tag = etag("estimate", version_of(estimate), estimate.state)
    return not_modified(request, tag) or respond(request, describe(session, estimate_id), etag=tag)


@router.post(
    "/estimates/{estimate_id}/cancel",
    response_model=EstimateDetail,
    responses=accepted(EstimateDetail, "It is being computed and stops at its next chunk."),
)
def cancel_estimate(request: Request, engine: EngineDep, jobs: JobsDep, estimate_id: Id) -> Response:
    """Cancel an estimate that is not computed yet."""
    with read(engine) as session:
        estimate_of(session, estimate_id)
    return cancel(request, engine, jobs, "estimate", estimate_id, describe, ESTIMATES)


@router.delete("/estimates/{estimate_id}", status_code=204)
def delete_estimate(session: Writer, estimate_id: Id) -> Response:
    """Delete an estimate that was asked for. Vantage's own, one being computed and a pinned one stay."""
    estimate = estimate_of(session, estimate_id)
    pinned = estimates.pinned(session, estimate_id)
    if estimate.default:
        raise Conflict(
            "This is one of Vantage's own estimates of the batch; it goes when the batch is deleted."
        )
    if estimate.state not in FINAL:
        raise Conflict(f"The estimate is {estimate.state}; cancel it first.")
    if pinned:
        raise Conflict(
            f"The estimate is pinned to {' and '.join(map(repr, pinned))}; take it from there first."
        )
    estimates.delete(session, estimate_id)
    return Response(status_code=204)


def existing(session: Reader, estimate_id: Id) -> str:
    """Raises NotFound before an event stream has begun."""
    return estimate_of(session, estimate_id).id


@router.get("/estimates/{estimate_id}/events", response_class=EventSourceResponse)
async def estimate_events(
    engine: EngineDep, polls: PollsDep, estimate_id: Annotated[str, Depends(existing)]
) -> AsyncIterator[ServerSentEvent]:
    """Follow an estimate: server-sent `progress` events with state, stage, rollouts done, rate, time left."""
    async for event in events_of(polls, engine, "estimate", estimate_id):
        yield event
