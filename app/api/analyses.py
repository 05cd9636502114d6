"""Asking what made the recorded advantages, and what a grid of parameters would give."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.analysis import describe, request_reconcile, request_sweep
from app.api.events import events_of
from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import Id, analysis_of, batch_of, version_of
from app.api.outcomes import answer, cancel
from app.api.schemas.analyses import (
    AnalysisDetail,
    AnalysisPage,
    ReconcileBody,
    ReconcileDetail,
    SweepBody,
    SweepDetail,
)
from app.api.schemas.common import accepted, responses
from app.api.strict import StrictRoute
from app.api.waiting import Wait, ended
from app.deps import ClosingDep, EngineDep, JobsDep, PollsDep, Reader, WaitersDep
from app.jobs import FINAL
from app.responses import etag, not_modified, respond
from storage import analyses
from storage.database import read

router = APIRouter(prefix="/api/v1", tags=["analyses"], route_class=StrictRoute)

ANALYSES = "/api/v1/analyses"
ONCE: Any = {200: "The same was asked before.", 202: "Not answered yet."}


@router.post(
    "/batches/{batch_id}/reconcile",
    status_code=201,
    response_model=ReconcileDetail,
    responses=responses(ONCE, ReconcileDetail),
)
async def reconcile(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    closing: ClosingDep,
    waiters: WaitersDep,
    batch_id: Id,
    body: Annotated[ReconcileBody | None, Body()] = None,
    wait: Wait = 0,
) -> Response:
    """Say which convention, or which mistake, made the recorded advantages. Without a body, what the file's
    header says is all that is known of the run."""
    given = body.model_dump(exclude_none=True) if body else {}
    analysis_id, created = await run_in_threadpool(request_reconcile, engine, jobs, batch_id, given)
    await ended(engine, "analysis", analysis_id, wait, closing, waiters)
    return await run_in_threadpool(
        answer, request, engine, "analysis", analysis_id, describe, ANALYSES, created
    )


@router.post(
    "/batches/{batch_id}/sweeps",
    status_code=201,
    response_model=SweepDetail,
    responses=responses(ONCE, SweepDetail),
)
async def create_sweep(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    closing: ClosingDep,
    waiters: WaitersDep,
    batch_id: Id,
    body: SweepBody,
    wait: Wait = 0,
) -> Response:
    """Run one estimator over a grid of parameters. Each point gives a summary; no advantages are kept."""
    given = body.model_dump(exclude_none=True)
    analysis_id, created = await run_in_threadpool(request_sweep, engine, jobs, batch_id, given)
    await ended(engine, "analysis", analysis_id, wait, closing, waiters)
    return await run_in_threadpool(
        answer, request, engine, "analysis", analysis_id, describe, ANALYSES, created
    )


@router.get("/batches/{batch_id}/analyses", response_model=AnalysisPage)
def list_analyses(
    request: Request, session: Reader, batch_id: Id, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List the analyses of a batch, newest first; those that Vantage asked for itself are `default`."""
    batch = batch_of(session, batch_id)
    with asked(cursor):
        page = analyses.page(session, batch.id, limit, cursor)
    return respond(request, listed(page, lambda row: describe(session, row.id)))


@router.get("/analyses/{analysis_id}", response_model=AnalysisDetail)
def get_analysis(request: Request, session: Reader, analysis_id: Id) -> Response:
    """An analysis: request, state, progress, and its answer once it is there."""
    analysis = analysis_of(session, analysis_id)
    if analysis.state not in FINAL:
        return respond(request, describe(session, analysis_id))
    tag = etag("analysis", version_of(analysis), analysis.state)
    return not_modified(request, tag) or respond(request, describe(session, analysis_id), etag=tag)


@router.post(
    "/analyses/{analysis_id}/cancel",
    response_model=AnalysisDetail,
    responses=accepted(AnalysisDetail, "It is being done and stops soon."),
)
def cancel_analysis(request: Request, engine: EngineDep, jobs: JobsDep, analysis_id: Id) -> Response:
    """Cancel an analysis that is not done yet."""
    with read(engine) as session:
        analysis_of(session, analysis_id)
    return cancel(request, engine, jobs, "analysis", analysis_id, describe, ANALYSES)


def existing(session: Reader, analysis_id: Id) -> str:
    """Raises NotFound before an event stream has begun."""
    return analysis_of(session, analysis_id).id


@router.get("/analyses/{analysis_id}/events", response_class=EventSourceResponse)
async def analysis_events(
    engine: EngineDep, polls: PollsDep, analysis_id: Annotated[str, Depends(existing)]
) -> AsyncIterator[ServerSentEvent]:
    """Follow an analysis: server-sent `progress` events with state, stage, steps done, rate, time left."""
    async for event in events_of(polls, engine, "analysis", analysis_id):
        yield event
