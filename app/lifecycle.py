"""How a job ends otherwise than by success, and how its work goes from a worker that is gone to another."""

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, select, update

from app.attempts import RECONCILIATION
from app.jobs import BULK, FINAL, KINDS, Jobs, Kind, find, model_of
from storage import analyses, batches, estimates, unchecked, uploads, workers
from storage import jobs as job_rows
from storage.database import WriteSession, end_sessions, write


def request_cancel(engine: Engine, jobs: Jobs, kind: Kind, id: str) -> str:
    """Ask a job to stop; its state after the request. A finished job stays as it is. Raises NotFound."""
    with write(engine) as session:
        job = find(session, kind, id)
        if job.state in FINAL:
            return job.state
        job.cancel_requested = True
        if job.state == "queued":  # nobody works on it, so nobody else would say that it ended
            settle_cancelled(session, kind, id)
            session.refresh(job)
        state, revision = job.state, job.revision
    jobs.cancel(kind, id, revision)
    return state


def settle_cancelled(session: WriteSession, kind: Kind, id: str) -> None:
    """Mark the job cancelled and drop what it stored."""
    drop_partial(session, kind, id)
    job_rows.finish(session, model_of(kind), id, "cancelled")


def give_up(
    session: WriteSession, kind: Kind, id: str, *, error: str, problems: Sequence[dict[str, Any]]
) -> None:
    """Mark the job failed with a sentence and drop what it stored. The problems of an upload name it too, and
    a batch says what of it could not be checked."""
    drop_partial(session, kind, id)
    if kind == "analysis":
        leave_unchecked(session, id)
    if kind == "ingest":
        uploads.add_problems(session, id, problems or unsaid(session, id, error))
    job_rows.finish(session, model_of(kind), id, "failed", error)


def leave_unchecked(session: WriteSession, analysis_id: str) -> None:
    """The batch's first reconciliation failed: say so where the batch is shown."""
    row = analyses.get(session, analysis_id)
    if row is not None and row.default and row.kind == "reconcile":
        unchecked.record(session, row.batch_id, dict([RECONCILIATION]))


def unsaid(session: WriteSession, upload_id: str, error: str) -> list[dict[str, Any]]:
    """The error as a problem of the whole upload, unless its problems say it already."""
    said = {problem.message for problem in uploads.problems(session, upload_id, uploads.STORED_PROBLEMS)}
    return [] if error in said else [{"severity": "error", "code": "upload_failed", "message": error}]


def start_again(session: WriteSession, kind: Kind, id: str, *, jobs: Jobs) -> None:
    """Drop what the job stored and queue it from its beginning, as its next revision."""
    job = find(session, kind, id)
    drop_partial(session, kind, id)
    if kind == "ingest":
        uploads.clear_problems(session, id)
    requeue(session, jobs, kind, job.id)


def requeue(session: WriteSession, jobs: Jobs, kind: Kind, id: str, priority: int = BULK) -> None:
    """Queue a job again as its next revision, with clean counters."""
    job = find(session, kind, id)
    job.state, job.stage, job.error = "queued", "queued", None
    job.done, job.attempts, job.cancel_requested = 0, 0, False
    job.executor, job.started, job.finished = None, None, None
    job.revision += 1
    jobs.enqueue(session, kind, id, job.revision, priority)


def drop_partial(session: WriteSession, kind: Kind, id: str) -> None:
    """Delete what an unfinished job stored."""
    if kind == "ingest":
        batches.discard_partial(session, id)
    elif kind == "estimate":
        estimates.clear(session, id)


def bury(engine: Engine, jobs: Jobs, executor: str) -> list[str]:
    """Take over from a worker that is gone: its jobs go back to the queue, those to be cancelled end here.

    A frozen one may stand in the middle of a transaction, whose locks would make this wait for it.
    """
    end_sessions(engine, session_name(executor))
    handed = jobs.hand_back(executor)
    _let_go(engine, executor)
    with write(engine) as session:
        workers.mark_reaped(session, executor)  # last, so that a burial that is cut short is repeated
    return handed


def session_name(executor: str) -> str:
    """What PostgreSQL calls the sessions of a worker; a name there has 63 bytes at most."""
    return f"vantage-worker-{hashlib.sha256(executor.encode()).hexdigest()[:32]}"


def release(engine: Engine, jobs: Jobs, executor: str) -> list[str]:
    """Leave in good order: what this worker holds goes back to the queue, and the attempt is not counted."""
    with write(engine) as session:
        for kind in KINDS:
            model = model_of(kind)
            session.execute(
                update(model)
                .where(model.executor == executor, model.state == "running", model.attempts > 0)
                .values(attempts=model.attempts - 1)
            )
    handed = jobs.hand_back(executor)
    _let_go(engine, executor)
    with write(engine) as session:
        workers.stop(session, executor)
    return handed


def _let_go(engine: Engine, executor: str) -> None:
    """Rows that name `executor` as theirs: cancelled where that was asked for, else waiting again."""
    with write(engine) as session:
        for kind in KINDS:
            model = model_of(kind)
            held = select(model.id).where(model.executor == executor, model.state == "running")
            for id in session.scalars(held.with_for_update()).all():
                job = find(session, kind, id)
                if job.cancel_requested:
                    settle_cancelled(session, kind, id)
                else:
                    job.state, job.stage, job.executor = "queued", "queued", None
