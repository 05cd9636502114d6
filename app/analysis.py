"""Analyses: questions about a batch that a worker answers once: reconciliations and sweeps."""

import time
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import Engine

from app import reconciling, sweeps
from app.configured import configured, parameters, takes, understood
from app.errors import NotFound, Unprocessable
from app.estimation import check_possible, device_name, request_hash
from app.findings.settling import settle
from app.jobs import BULK, INTERACTIVE, Jobs, progress
from app.lifecycle import requeue
from app.tasks import Task
from app.tensors import Loaded, load, token_fields
from estimators import CONVENTIONS, Request
from estimators.conventions import Alias
from estimators.sweep import sweep
from storage import analyses, batches
from storage import jobs as job_rows
from storage.database import AnySession, WriteSession, read, write
from storage.models import Analysis
from storage.models import Batch as BatchRow

Kind = Literal["reconcile", "sweep"]
#: Seconds between two looks at progress and cancellation.
TICK = 0.25


def request_sweep(engine: Engine, jobs: Jobs, batch_id: str, body: Mapping[str, Any]) -> tuple[str, bool]:
    """Ask for a sweep: (id, created). The same sweep of the same batch is the same analysis. Raises NotFound,
    Unprocessable."""
    points = sweeps.points(body)
    with write(engine) as session:
        batch = existing(session, batch_id)
        for request in {id(point.request): point.request for point in points}.values():
            check_possible(batch, request)
        return again(session, jobs, batch, "sweep", sweeps.normalised(body), len(points))


def request_reconcile(engine: Engine, jobs: Jobs, batch_id: str, body: Mapping[str, Any]) -> tuple[str, bool]:
    """Ask which convention or mistake made the recorded advantages: (id, created). Raises NotFound,
    Unprocessable."""
    with write(engine) as session:
        batch = existing(session, batch_id)
        asked = reconcile_request(body, configured(batch.header, batch.format).convention)
        return again(session, jobs, batch, "reconcile", asked, 1)


def reconcile_request(body: Mapping[str, Any] | None = None, said: str | None = None) -> dict[str, Any]:
    """The body of a reconciliation with every default spelt out. `said`: the convention that the header
    names, whose keys `params` may have where the body names none. Raises Unprocessable."""
    given = body or {}
    convention = given.get("convention")
    if convention is not None and convention not in CONVENTIONS:
        raise Unprocessable(f"There is no convention {convention!r}; there are {', '.join(CONVENTIONS)}.")
    params = dict(given.get("params") or {})
    if params and (name := convention or said) is not None:
        try:
            Request.from_dict({"convention": name, "params": params})
        except ValueError as error:
            read = understood(name, params)
            if convention is not None and read is None:
                raise Unprocessable(str(error)) from error
            params = read or params
        if understood(name, params) is not None:
            return {"convention": convention, "params": params}
    taken = parameters(params)
    if odd := sorted(name for name in set(params) - set(taken) if not somewhere(name, params[name])):
        raise Unprocessable(
            f"params.{odd[0]} is no parameter of an estimator, or {params[odd[0]]!r} is no value of it. "
            "GET /api/v1/estimators lists them."
        )
    return {"convention": convention, "params": params | taken}


def somewhere(name: str, value: Any) -> bool:
    """Whether this option sets something in a convention that takes it."""
    return any(
        each.aliases.get(name, Alias()) != Alias() and takes(each, {name: value})
        for each in CONVENTIONS.values()
    )


def existing(session: AnySession, batch_id: str) -> BatchRow:
    """The batch. Raises NotFound."""
    batch = batches.get(session, batch_id)
    if batch is None:
        raise NotFound(f"There is no batch with the id {batch_id!r}.")
    return batch


def again(
    session: WriteSession, jobs: Jobs, batch: BatchRow, kind: Kind, request: dict[str, Any], total: int
) -> tuple[str, bool]:
    """The analysis a person asks for; one that failed or was cancelled is done again."""
    row, created = ask(session, jobs, batch.id, kind, request, total, INTERACTIVE)
    if not created and row.state in ("failed", "cancelled"):
        requeue(session, jobs, "analysis", row.id, INTERACTIVE)
    return row.id, created


def ask(
    session: WriteSession,
    jobs: Jobs,
    batch_id: str,
    kind: Kind,
    request: dict[str, Any],
    total: int,
    priority: int,
    default: bool = False,
) -> tuple[Analysis, bool]:
    """The row of this question, made and queued in the caller's transaction unless it is there already."""
    row, created = analyses.request(
        session, batch_id, kind, request, request_hash(request), default=default, total=total
    )
    if created:
        jobs.enqueue(session, "analysis", row.id, row.revision, priority)
    return row, created


def expect(session: WriteSession, jobs: Jobs, batch_id: str, answer: dict[str, Any] | None) -> None:
    """The reconciliation that Vantage asks for by itself: answered already, or queued behind other work."""
    asked = reconcile_request()
    if answer is None:
        ask(session, jobs, batch_id, "reconcile", asked, 1, BULK, default=True)
        return
    row, _ = analyses.request(
        session, batch_id, "reconcile", asked, request_hash(asked), default=True, total=1, done=1
    )
    analyses.finish(session, row.id, answer, device="cpu")


def describe(session: AnySession, analysis_id: str) -> dict[str, Any]:
    """The analysis as the API shows it: what every analysis has, and its answer. Raises NotFound."""
    row = analyses.get(session, analysis_id)
    if row is None:
        raise NotFound(f"There is no analysis with the id {analysis_id!r}.")
    return {
        "id": row.id,
        "batch": row.batch_id,
        "kind": row.kind,
        "request": row.request,
        "default": row.default,
        "state": row.state,
        "progress": progress("analysis", row),
        "device": row.device,
        "timing": row.timing,
        "error": row.error,
        "created": row.created,
        "finished": row.finished,
        **(row.result or EMPTY[row.kind]),
    }


#: What stands in for the answer until there is one.
EMPTY: dict[str, dict[str, Any]] = {
    "reconcile": dict.fromkeys(
        ("recorded", "verdict", "candidates", "precision", "explanation", "deciding", "deciding_rollout",
         "configured", "unknown", "difference")
    ),
    "sweep": {"points": None},
}  # fmt: skip


def run_analysis(task: Task, analysis_id: str) -> None:
    """The body of the job: load, answer, store."""
    with read(task.engine) as session:
        row = analyses.get(session, analysis_id)
        batch = None if row is None else batches.get(session, row.batch_id)
        if row is None or batch is None:
            return
        session.expunge_all()
    started = time.perf_counter()
    result = reconciled(task, batch, row.request) if row.kind == "reconcile" else swept(task, row)
    timing = {"total_seconds": time.perf_counter() - started}

    def end(session: WriteSession) -> None:
        if row.default and row.kind == "reconcile":
            settle(session, batch.id, result)
        analyses.finish(session, analysis_id, result, device=device_name(task.device), timing=timing)

    task.commit(end)


def reconciled(task: Task, batch: BatchRow, request: Mapping[str, Any]) -> dict[str, Any]:
    task.stage("loading")
    with read(task.engine) as session:
        if not reconciling.recorded_in(batch.fields):
            return reconciling.nothing(batch.header, batch.format, request)
        given = task.cache.get(
            (batch.id, reconciling.FIELDS, "group_id"),
            task.device,
            lambda: reconciling.loaded(session, batch.id),
        )
        task.stage("computing")
        return reconciling.answer(session, batch.id, batch.header, batch.format, given, request)


def swept(task: Task, row: Analysis) -> dict[str, Any]:
    points = sweeps.points(row.request)
    task.stage("loading")
    wanted = {name for point in points for name in token_fields(point.request)}
    fields = tuple(name for name in reconciling.FIELDS if name in wanted)
    grouping = points[0].request.grouping

    def from_storage() -> Loaded:
        with read(task.engine) as session:
            return load(session, row.batch_id, fields, grouping)

    given = task.cache.get((row.batch_id, fields, grouping), task.device, from_storage)
    task.stage("computing")
    found: list[dict[str, Any]] = []
    looked = time.monotonic()
    for outcome in sweep(given.batch, points):
        found.append(sweeps.shown(outcome))
        if time.monotonic() - looked > TICK:
            task.check()
            with write(task.engine) as session:
                job_rows.progress(session, Analysis, row.id, done=len(found))
            looked = time.monotonic()
    return {"points": found}
