"""The job engine: one workflow per upload ("ingest"), estimate ("estimate") and analysis ("analysis").

What a person sees of a job (state, stage, progress, cancellation, error) lives on its own row, `upload`,
`estimate` or `analysis`; the engine (DBOS, in the same database) only decides who runs it and where a killed
run goes on. A job that has to run again gets a new `revision` and with it a new workflow id.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, assert_never, cast

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, SQLAlchemyDatasource
from sqlalchemy import Engine

from app.bells import Bell, bell_of
from app.data_folder import prepare_folder
from app.errors import NotFound
from app.logs import get_logger
from app.settings import Settings
from app.shared_polls import SharedPolls
from storage.database import AnySession, WriteSession, migrate, read
from storage.models import Analysis, Estimate, Job, Upload
from storage.turns import turn

log = get_logger("vantage.jobs")

Kind = Literal["ingest", "estimate", "analysis"]
KINDS: tuple[Kind, ...] = ("ingest", "estimate", "analysis")

APPLICATION = "vantage"
#: Pinned: a version that followed the code would strand running jobs at each upgrade. Raise it by hand, with
#: drained queues, when the order of a workflow's steps changes.
APPLICATION_VERSION = "jobs-1"

#: Smaller runs first. A person waits for the one, nobody for the other.
INTERACTIVE, BULK = 10, 100

FINAL = ("succeeded", "failed", "cancelled")
UNITS: dict[Kind, str] = {"ingest": "bytes", "estimate": "rollouts", "analysis": "steps"}
#: What a person calls the thing whose job it is.
NAMES: dict[Kind, str] = {"ingest": "upload", "estimate": "estimate", "analysis": "analysis"}
POLL_SECONDS = 0.05


class Record(NamedTuple):
    """The engine's record of a job: its status, and the worker that it was given to."""

    status: str
    executor: str | None


@dataclass(frozen=True, slots=True)
class Jobs:
    """The queue as the web process and the workers see it. One per process; `close` it at the end."""

    client: DBOSClient
    bell: Bell

    def enqueue(
        self, session: WriteSession, kind: Kind, id: str, revision: int, priority: int = INTERACTIVE
    ) -> None:
        """Queue the job within the caller's transaction: its row and its queue entry, both or neither."""
        options: EnqueueOptions = {
            "workflow_name": kind,
            "queue_name": kind,
            "workflow_id": workflow_id(kind, id, revision),
            "priority": priority,
        }
        self.client.enqueue_in_transaction(session, options, id, revision)
        self.bell.ring_after(session, queued_text(kind))

    def cancel(self, kind: Kind, id: str, revision: int) -> None:
        """Keep a queued job from starting and a running one from taking another step."""
        self.client.cancel_workflow(workflow_id(kind, id, revision))

    def hand_back(self, executor: str) -> list[str]:
        """Queue again what `executor` holds; the workflow ids. An executor that still lives is fenced off."""
        held: list[str] = []
        for kind in KINDS:
            found = self.client.list_workflows(
                status="PENDING", executor_id=executor, queue_name=kind, load_input=False, load_output=False
            )
            if ids := [workflow.workflow_id for workflow in found]:
                self.client.resume_workflows(ids, queue_name=kind)
                held += ids
        return held

    def records(self, workflow_ids: Sequence[str]) -> dict[str, Record]:
        """The engine's records of these workflows, as far as it knows them."""
        return self._records(workflow_ids=list(workflow_ids)) if workflow_ids else {}

    def running(self) -> dict[str, Record]:
        """The records of all workflows that some worker has, by workflow id."""
        return self._records(status="PENDING")

    def _records(self, **asked: Any) -> dict[str, Record]:
        found = self.client.list_workflows(load_input=False, load_output=False, **asked)
        return {one.workflow_id: Record(str(one.status), one.executor_id) for one in found}

    def resume(self, workflow_id: str) -> None:
        """Queue a workflow again that was left in the middle; one that has ended stays as it is."""
        kind = workflow_id.partition(":")[0]
        self.client.resume_workflows([workflow_id], queue_name=kind)
        self.bell.ring(f"queued {kind}")

    def forget(self, before: float, limit: int = 500) -> int:
        """Delete the engine's records of jobs that ended before `before` (Unix seconds); how many."""
        found = self.client.list_workflows(
            completed_before=datetime.fromtimestamp(before, UTC).isoformat(),
            limit=limit,
            load_input=False,
            load_output=False,
        )
        ids = [workflow.workflow_id for workflow in found]
        if ids:
            self.client.delete_workflows(ids)
        return len(ids)

    def close(self) -> None:
        self.client.destroy()
        self.bell.close()


def workflow_id(kind: Kind, id: str, revision: int) -> str:
    return f"{kind}:{id}:{revision}"


def queued_text(kind: Kind) -> str:
    """What is rung when a job of this kind was queued."""
    return f"queued {kind}"


def ended_text(kind: Kind, id: str) -> str:
    """What is rung when the job has ended."""
    return f"ended {kind} {id}"


def model_of(kind: Kind) -> type[Upload] | type[Estimate] | type[Analysis]:
    match kind:
        case "ingest":
            return Upload
        case "estimate":
            return Estimate
        case "analysis":
            return Analysis
    assert_never(kind)


def connect(settings: Settings) -> Jobs:
    """A client of the queue; the schema must be there (`prepare`)."""
    client = DBOSClient(
        system_database_url=settings.url,
        application_name=APPLICATION,
        # The engine's default would unpickle what it finds in the database.
        serializer=DBOSPortableJSONSerializer(),
    )
    client._sys_db.engine.hide_parameters = True  # it can be given neither this nor its SQLAlchemy engine
    return Jobs(client, bell_of(settings))


def prepare(settings: Settings) -> None:
    """Make the data folder and bring the schema (ours and the engine's) up to date. Safe to call at once
    from several processes: they take turns, and whoever waits says so."""
    prepare_folder(settings)
    with turn(settings.url, settings.data_dir, _waiting):
        migrate(settings.url)
        DBOS.migrate(settings.url)
        SQLAlchemyDatasource.migrate(settings.url)


def _waiting(seconds: float) -> None:
    log.warning("waiting for another process that brings the schema up to date", seconds=round(seconds))


def get(session: AnySession, kind: Kind, id: str) -> Upload | Estimate | Analysis | None:
    """The job's row, if it is there."""
    return cast("Upload | Estimate | Analysis | None", session.get(model_of(kind), id))


def find(session: AnySession, kind: Kind, id: str) -> Upload | Estimate | Analysis:
    """The job's row. Raises NotFound."""
    job = get(session, kind, id)
    if job is None:
        raise NotFound(f"There is no {NAMES[kind]} with the id {id!r}.")
    return job


def progress(kind: Kind, job: Job) -> dict[str, Any]:
    """What an event stream and the job list say of a job: state, stage, done of total, rate and time left."""
    elapsed = (job.finished or time.time()) - job.started if job.started else None
    rate = job.done / elapsed if elapsed and job.done else None
    body: dict[str, Any] = {
        "state": job.state,
        "stage": job.stage,
        "done": job.done,
        "total": job.total,
        "unit": UNITS[kind],
        "elapsed_seconds": elapsed,
        "per_second": rate,
        "eta_seconds": (job.total - job.done) / rate if rate and job.state == "running" else None,
        "attempts": job.attempts,
        "cancel_requested": job.cancel_requested,
        "error": job.error,
    }
    if isinstance(job, Upload):
        body |= {"rows": job.rows, "bytes": job.done}
        body["rows_per_second"] = job.rows / elapsed if elapsed and job.rows else None
    return body


def snapshot(engine: Engine, kind: Kind, id: str) -> dict[str, Any]:
    """`progress` of the job as it is now. Raises NotFound."""
    with read(engine) as session:
        return progress(kind, find(session, kind, id))


def wait_for(engine: Engine, kind: Kind, id: str, seconds: float) -> str:
    """The job's state when it has ended or `seconds` (at most 60) have passed."""
    deadline = time.monotonic() + min(max(seconds, 0.0), 60.0)
    while True:
        with read(engine) as session:
            state = find(session, kind, id).state
        if state in FINAL or time.monotonic() >= deadline:
            return state
        time.sleep(POLL_SECONDS)


async def follow(
    polls: SharedPolls, engine: Engine, kind: Kind, id: str, seconds: float = 0.25
) -> AsyncIterator[dict[str, Any]]:
    """`progress` of the job each time it changed, the first at once, the last when it has ended.

    Stops when the server is going down. Whoever follows the same job shares one look at it.
    """
    ask = partial(snapshot, engine, kind, id)
    async with aclosing(polls.results((kind, id), ask, seconds, changing)) as bodies:
        async for body in bodies:
            yield body
            if body["state"] in FINAL:
                return


def changing(body: dict[str, Any]) -> list[Any]:
    """What of a job's progress makes it worth an event; the time that passes does not."""
    return [body[key] for key in ("state", "stage", "done", "total", "attempts", "cancel_requested")]
