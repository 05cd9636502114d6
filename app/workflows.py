"""The durable workflows, one per kind of job, and how a job begins, goes on, ends, fails or is cancelled.

A workflow's body runs again from its start when its worker died; each `commit` that was made before is then
answered from its record instead of being made twice. So the order of commits depends on nothing but the
file (or batch) and on what earlier commits returned.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import torch
from dbos import DBOS, DBOSPortableJSONSerializer, PortableWorkflowError, SQLAlchemyDatasource
from dbos import error as engine_errors
from sqlalchemy import Engine, select

from app.analysis import run_analysis
from app.attempts import places
from app.cache import BatchCache
from app.errors import AppError
from app.estimation import run_estimate
from app.jobs import Jobs, Kind, ended_text, get, model_of, workflow_id
from app.lifecycle import give_up, settle_cancelled, start_again
from app.logs import get_logger
from app.memory import give_back
from app.settings import Settings
from app.storing import run_ingest
from app.tasks import Cancelled, Commit, Restart, Superseded, Task, Work
from estimators import Refused
from storage import jobs as job_rows
from storage.database import WriteSession, checkpoint, read, write
from storage.faults import fault_of

log = get_logger("vantage.worker")


class HandedBack(BaseException):
    """Leaves a job as it is, for another run of it. An Exception would be recorded as the end of the job."""


#: What is done with a job that did not succeed.
Ending = Callable[[WriteSession, Kind, str], None]

BODIES: dict[Kind, Callable[[Task, str], None]] = {
    "ingest": run_ingest,
    "estimate": run_estimate,
    "analysis": run_analysis,
}


@dataclass(frozen=True, slots=True)
class Context:
    """What this worker process is and has. `leaving` is set when it is about to stop; jobs share `cache`.

    `performing`: workflow ids of what it works on; `faults`: of what it put back, and why.
    """

    engine: Engine
    jobs: Jobs
    settings: Settings
    device: str
    executor: str
    cache: BatchCache
    leaving: Event = field(default_factory=Event)
    performing: set[str] = field(default_factory=set)
    faults: dict[str, str] = field(default_factory=dict)


def register(context: Context) -> None:
    """Tell the job engine the workflows; once per process, before it is launched."""
    datasource = SQLAlchemyDatasource.create(
        context.settings.url,
        engine=context.engine,
        serializer=DBOSPortableJSONSerializer(),
        run_migrations=False,
    )
    # The engine's default on PostgreSQL, SERIALIZABLE, would retry for rows that have nothing in common.
    sqlite = context.engine.dialect.name == "sqlite"

    @datasource.transaction(name="commit", isolation_level="SERIALIZABLE" if sqlite else "READ COMMITTED")
    def commit(work: Work) -> Any:
        return work(WriteSession(datasource.sql_session()))

    for kind in BODIES:
        _register_kind(context, kind, commit)


def _register_kind(context: Context, kind: Kind, commit: Commit) -> None:
    # Attempts are counted on the job's row: the engine's own count is reset whenever a job is handed back.
    @DBOS.workflow(name=kind, max_recovery_attempts=1_000_000)
    def workflow(id: str, revision: int) -> str:
        name = workflow_id(kind, id, revision)
        context.performing.add(name)
        try:
            outcome = perform(context, kind, id, revision, commit)
        finally:
            context.performing.discard(name)
        context.jobs.bell.ring(ended_text(kind, id))
        checkpoint(context.engine, cut=False)  # now that nobody waits for it
        if kind == "ingest":  # the one that takes memory as files please
            give_back()
        return outcome


def perform(context: Context, kind: Kind, id: str, revision: int, commit: Commit) -> str:
    """Run one job to an end: how it ended. The engine stops a run that lost its job to another worker.

    Raises HandedBack where the job cannot be done now and is not to blame: `app.upkeep` queues it again.
    """
    try:
        return _perform(context, kind, id, revision, commit)
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        context.faults[workflow_id(kind, id, revision)] = fault
        log.warning("job put back", kind=kind, id=id, fault=fault, where=places(error))
        raise HandedBack from error


def _perform(context: Context, kind: Kind, id: str, revision: int, commit: Commit) -> str:
    engine, model = context.engine, model_of(kind)
    with write(engine) as session:
        current = is_current(session, kind, id, revision)
        attempt = current and job_rows.begin_attempt(session, model, id, context.executor)
    if not attempt:
        return "nothing to do"
    log.info("job begun", kind=kind, id=id, attempt=attempt)
    try:
        outcome = _attempt(make_task(context, kind, id, revision, commit, attempt), kind, id, attempt)
    except Superseded:
        outcome = "superseded"
    except (Cancelled, engine_errors.DBOSWorkflowCancelledError):
        outcome = _end(context, kind, id, revision, settle_cancelled)
    except engine_errors.DBOSWorkflowConflictIDError:
        # Another worker has the job; or it was cancelled while a step was being committed.
        if cancel_requested(engine, kind, id):
            _end(context, kind, id, revision, settle_cancelled)
        raise
    except (Restart, PortableWorkflowError):
        # The latter is what an earlier run met in a step: recorded, it would be met again and again.
        outcome = _end(context, kind, id, revision, partial(start_again, jobs=context.jobs))
    except Exception as error:
        if context.leaving.is_set():  # perhaps it failed only because the engine is gone
            raise HandedBack from error
        if fault_of(error) is not None:
            raise
        sentence, problems = explain(error, kind, id)
        outcome = _end(context, kind, id, revision, partial(give_up, error=sentence, problems=problems))
    log.info("job ended", kind=kind, id=id, outcome=outcome)
    return outcome


def _attempt(task: Task, kind: Kind, id: str, attempt: int) -> str:
    limit = task.settings.max_attempts
    if attempt > limit:
        raise AppError(
            f"Given up: the worker died {limit} times in the same place, most often for lack of memory. "
            "Give it more memory, or send the data in smaller files."
        )
    task.check()
    BODIES[kind](task, id)
    return "succeeded"


def _end(context: Context, kind: Kind, id: str, revision: int, ending: Ending) -> str:
    """End a job that did not succeed, if this worker still holds it: its state then.

    Not a step: a run that was resumed may be short of the steps recorded before, and the engine would answer
    from the record instead of running this one.
    """
    with write(context.engine) as session:
        job = get(session, kind, id)
        if not is_current(session, kind, id, revision) or job is None or job.executor != context.executor:
            return "superseded"
        ending(session, kind, id)
        session.refresh(job)
        return job.state


def make_task(context: Context, kind: Kind, id: str, revision: int, commit: Commit, attempt: int = 1) -> Task:
    """What the body gets. Its commits fail once the job is gone or has been queued anew; the first one of an
    `attempt` that got further than those before forgets their deaths."""
    engine, model = context.engine, model_of(kind)

    def commit_current(work: Work) -> Any:
        def guarded(session: WriteSession) -> Any:
            if not is_current(session, kind, id, revision):
                raise Superseded
            if attempt > 1:  # a step that was committed before would not come here
                job_rows.got_further(session, model, id)
            return work(session)

        return commit(guarded)

    def check() -> None:
        if cancel_requested(engine, kind, id):
            raise Cancelled

    def stage(name: str) -> None:
        with write(engine) as session:
            job_rows.progress(session, model, id, stage=name)

    return Task(
        engine, context.jobs, context.settings, context.device, context.cache, commit_current, check, stage
    )


def cancel_requested(engine: Engine, kind: Kind, id: str) -> bool:
    with read(engine) as session:
        return job_rows.is_cancelled(session, model_of(kind), id)


def is_current(session: WriteSession, kind: Kind, id: str, revision: int) -> bool:
    """Whether the job is there in this revision; its row is held until the transaction ends."""
    model = model_of(kind)
    return session.scalar(select(model.revision).where(model.id == id).with_for_update()) == revision


def explain(error: Exception, kind: Kind, id: str) -> tuple[str, list[dict[str, Any]]]:
    """The sentence for the person and the problems to list; the unforeseen goes to the log, without data."""
    if isinstance(error, AppError):
        return error.detail, error.problems
    if isinstance(error, Refused):
        return str(error), []
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return "Not enough memory for this job. Use a larger machine or device, or send smaller files.", []
    name = type(error).__name__
    # The message may quote a row of the file, so the log gets the places only.
    log.error("job failed", kind=kind, id=id, error=name, where=places(error))
    return f"Stopped by an unforeseen error ({name}). The worker's log says where, under the id {id}.", []
