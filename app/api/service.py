"""How the service is: jobs, workers, health, metrics."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from app.api.listing import Cursor, Limit, asked, listed, whole
from app.api.schemas.uploads import JobPage, WorkerPage
from app.api.strict import StrictRoute
from app.deps import EngineDep, Reader, SettingsDep
from app.errors import Unprocessable
from app.jobs import KINDS, UNITS, Kind
from app.observe import Metrics
from app.responses import respond
from app.settings import Settings
from storage import jobs, unchecked, workers
from storage.database import AnySession, read, schema_is_current
from storage.database_file import DatabaseGone
from storage.jobs import JobRow
from storage.models import STATES, Worker

router = APIRouter(tags=["service"], route_class=StrictRoute)

SHOWN_SECONDS = 7 * 86400.0  # how long a worker that is gone stays in the list


@router.get("/api/v1/jobs", response_model=JobPage)
def list_jobs(
    request: Request,
    session: Reader,
    state: Annotated[
        list[str] | None, Query(max_length=len(STATES), description="Only these states: " + ", ".join(STATES))
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List ingests, estimates and analyses, newest first."""
    unknown = sorted(set(state or ()) - set(STATES))
    if unknown:
        raise Unprocessable(f"There is no state {unknown[0][:64]!r}; there are {', '.join(STATES)}.")
    with asked(cursor):
        page = jobs.page(session, limit, cursor, tuple(state or ()))
    return respond(request, listed(page, job_item))


def job_item(row: JobRow) -> dict[str, Any]:
    kind: Kind = next(kind for kind in KINDS if kind == row.kind)
    same = (
        "id", "title", "state", "stage", "done", "total", "attempts", "cancel_requested", "error", "executor",
        "created", "started", "finished",
    )  # fmt: skip
    shown = {name: getattr(row, name) for name in same}
    return {"kind": kind, "batch": row.batch_id, "unit": UNITS[kind], **shown}


@router.get("/api/v1/workers", response_model=WorkerPage)
def list_workers(request: Request, session: Reader, settings: SettingsDep) -> Response:
    """List the workers of the last week: device, queues, when last seen; and how much is waiting."""
    now = time.time()
    items = [
        worker_item(worker, now - settings.dead_after_seconds)
        for worker in workers.list_all(session, now - SHOWN_SECONDS)
    ]
    return respond(request, {**whole(items), "queues": queue_lengths(session)})


def worker_item(worker: Worker, silent_before: float) -> dict[str, Any]:
    silent = worker.seen < silent_before or worker.reaped is not None
    return {
        "id": worker.executor_id,
        "host": worker.host,
        "pid": worker.pid,
        "device": worker.device,
        "queues": worker.queues,
        "state": "stopped" if worker.stopped is not None else "silent" if silent else "alive",
        "started": worker.started,
        "seen": worker.seen,
    }


def queue_lengths(session: AnySession) -> list[dict[str, Any]]:
    counted = jobs.counts(session)
    return [
        {
            "kind": kind,
            "queued": counted.get((kind, "queued"), 0),
            "running": counted.get((kind, "running"), 0),
        }
        for kind in KINDS
    ]


@router.get("/healthz")
def healthz(request: Request) -> Response:
    """Alive."""
    return respond(request, {"status": "alive"}, headers={"Cache-Control": "no-store"})


@router.get("/readyz", responses={503: {"description": "Not ready; `checks` says why."}})
def readyz(request: Request, engine: EngineDep, settings: SettingsDep) -> Response:
    """Ready: the database answers, its schema is current, and a worker was seen."""
    checks = check(engine, settings)
    ready = all(value == "ok" for value in checks.values())
    content = {"status": "ready" if ready else "not ready", "checks": checks}
    return respond(request, content, 200 if ready else 503, {"Cache-Control": "no-store"})


def check(engine: Engine, settings: Settings) -> dict[str, str]:
    try:
        with engine.execution_options(vantage_read=True).connect() as connection:
            connection.execute(text("SELECT 1"))
        current = schema_is_current(engine, settings.url)
        with read(engine) as session:
            attended = workers.seen(session, time.time() - settings.dead_after_seconds)
    except DatabaseGone as error:
        return {"database": str(error), "schema": "unknown", "worker": "unknown"}
    except SQLAlchemyError:
        away = "unknown"
        return {"database": "does not answer", "schema": away, "worker": away}
    return {
        "database": "ok",
        "schema": "ok" if current else "not current: run `vantage migrate`",
        "worker": "ok" if attended else "none seen: start `vantage worker`",
    }


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request, session: Reader, settings: SettingsDep) -> Response:
    """Prometheus metrics: requests of this process, jobs and workers of the whole service."""
    counted: Metrics = request.app.state.metrics
    own = generate_latest(counted.registry)
    shared = generate_latest(gauges(session, settings))
    return Response(own + shared, media_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})


def gauges(session: AnySession, settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    held = Gauge("vantage_jobs", "Jobs in the database.", ("kind", "state"), registry=registry)
    counted = jobs.counts(session)
    for kind in KINDS:
        for state in STATES:
            held.labels(kind, state).set(counted.get((kind, state), 0))
    lacking = Gauge(
        "vantage_unchecked_batches", "Batches whose check could not be done.", ("check",), registry=registry
    )
    for check, batches in unchecked.counts(session).items():
        lacking.labels(check).set(batches)
    alive = Gauge("vantage_workers_alive", "Workers that were heard of lately.", registry=registry)
    silent_before = time.time() - settings.dead_after_seconds
    found = [worker_item(worker, silent_before) for worker in workers.list_all(session, silent_before)]
    alive.set(sum(worker["state"] == "alive" for worker in found))
    return registry
