"""One rule for two books: what our rows say of a job, and what the job engine's records say of it.

A cut connection, a full disk or a killed process may leave the one without the other: a row that is "running"
while the engine calls the job ended, or while nobody works on it. Each worker compares the two with every
heartbeat. What is looked at may be about to change by itself, so a difference counts when it is there twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from sqlalchemy import Engine, Select, select

from app.jobs import KINDS, Jobs, Kind, Record, get, model_of, workflow_id
from app.lifecycle import give_up, settle_cancelled, start_again
from app.logs import get_logger
from app.settings import Settings
from storage import jobs as job_rows
from storage import workers
from storage.database import ReadSession, WriteSession, read, write
from storage.models import Job

log = get_logger("vantage.upkeep")

#: What the engine calls a job that it will not run again by itself.
ENDED = ("SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
WAITING = ("ENQUEUED", "DELAYED")
#: Rows that one look compares; the next look goes on behind them.
ROWS = 500

#: What has to be done. "again": begin it anew; "cancel": say that it was cancelled; "wait": say that it
#: waits; "hand back": let the engine queue it again.
Step = Literal["again", "cancel", "wait", "hand back"]


@dataclass(frozen=True, slots=True)
class Row:
    """Our row of an open job."""

    kind: Kind
    id: str
    revision: int
    state: str
    cancel_requested: bool
    executor: str | None

    @property
    def workflow(self) -> str:
        return workflow_id(self.kind, self.id, self.revision)


def step_for(row: Row, record: Record | None, held: bool) -> Step | None:
    """What brings the row of an open job and the engine's record of it together; None where they agree.

    `held`: whether the worker that the record (or, of a cancelled job, the row) names lives and works on it.
    """
    status = None if record is None else record.status
    if status is None or status in ENDED:
        return "cancel" if row.cancel_requested else "again"
    if held:
        return None
    if row.cancel_requested:
        return "cancel"
    if status == "CANCELLED":
        return "again"
    if status in WAITING:
        return "wait" if row.state == "running" else None
    return "hand back"


@dataclass(slots=True)
class Upkeep:
    """The looks of one worker. `performing`: workflow ids of what it works on; `faults`: of what it put back,
    and why."""

    engine: Engine
    jobs: Jobs
    settings: Settings
    executor: str
    performing: set[str] = field(default_factory=set)
    faults: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Step] = field(default_factory=dict)
    after: dict[Kind, str] = field(default_factory=dict)

    def look(self) -> list[str]:
        """Compare, and do what was to be done at the look before as well; the workflow ids it was done
        for."""
        running = self.jobs.running()
        with read(self.engine) as session:
            rows = {row.workflow: row for kind in KINDS for row in self._page(session, kind)}
            rows |= {row.workflow: row for kind in KINDS for row in of_records(session, kind, running)}
            living = {worker.executor_id for worker in workers.unreaped(session)}
        records = running | self.jobs.records(list(rows))  # later than the rows
        found: dict[str, Step] = {}
        for name in rows.keys() | records.keys():
            step = self._step(name, rows.get(name), records.get(name), living)
            if step is not None:
                found[name] = step
        agreed = [name for name, step in found.items() if self.seen.get(name) == step]
        self.seen = {name: step for name, step in found.items() if name not in agreed}
        for name in agreed:
            self._do(found[name], name, rows.get(name), records.get(name))
        return agreed

    def _page(self, session: ReadSession, kind: Kind) -> list[Row]:
        """Open jobs behind those of the look before."""
        model = model_of(kind)
        behind = select(model).where(model.state.in_(job_rows.OPEN), model.id > self.after.get(kind, ""))
        found = rows_of(session, kind, behind.order_by(model.id).limit(ROWS))
        self.after[kind] = found[-1].id if len(found) == ROWS else ""
        return found

    def _step(self, name: str, row: Row | None, record: Record | None, living: set[str]) -> Step | None:
        if row is None:
            # Nothing of ours waits for it; but left as running it would be begun at the next burial.
            stray = record is not None and not self._works(name, record.executor, living)
            return "hand back" if stray else None
        cancelled = record is not None and record.status == "CANCELLED"
        executor = row.executor if record is None or cancelled else record.executor
        return step_for(row, record, self._works(name, executor, living))

    def _works(self, name: str, executor: str | None, living: set[str]) -> bool:
        return name in self.performing if executor == self.executor else executor in living

    def _do(self, step: Step, name: str, row: Row | None, record: Record | None) -> None:
        log.warning("job set right", workflow=name, step=step, status=record.status if record else None)
        if step == "hand back":
            self.jobs.resume(name)
        if row is None:
            return
        with write(self.engine) as session:
            if step == "again":
                again(session, self.jobs, row, record, self.settings.max_attempts)
            elif step == "cancel":
                if unchanged(session, row):
                    settle_cancelled(session, row.kind, row.id)
            elif record is not None:
                self._let_go(session, row, record, name)

    def _let_go(self, session: WriteSession, row: Row, record: Record, name: str) -> None:
        """Nobody works on it: it waits again, or has been cancelled meanwhile."""
        job = unchanged(session, row)
        if job is None:
            return
        if job.cancel_requested:
            settle_cancelled(session, row.kind, row.id)
            return
        fault = self.faults.pop(name, None)
        if fault is not None and record.executor == self.executor:
            job.attempts = max(0, job.attempts - 1)  # the worker did not die of it
        job.state, job.executor = "queued", None
        job.stage = f"queued after: {fault}" if fault else "queued"


def of_records(session: ReadSession, kind: Kind, records: Mapping[str, Record]) -> list[Row]:
    """The open jobs of these workflow ids."""
    named = [name.split(":") for name in records]
    model, ids = model_of(kind), [parts[1] for parts in named if parts[0] == kind]
    if not ids:
        return []
    found = rows_of(session, kind, select(model).where(model.id.in_(ids), model.state.in_(job_rows.OPEN)))
    return [row for row in found if row.workflow in records]


def rows_of(session: ReadSession, kind: Kind, statement: Select[Any]) -> list[Row]:
    return [
        Row(kind, job.id, job.revision, job.state, job.cancel_requested, job.executor)
        for job in session.scalars(statement)
    ]


def unchanged(session: WriteSession, row: Row) -> Job | None:
    """The job, held until the transaction ends, if it is as it was looked at."""
    job = get(session, row.kind, row.id)
    if job is None:
        return None
    session.refresh(job, with_for_update=True)
    now = Row(row.kind, job.id, job.revision, job.state, job.cancel_requested, job.executor)
    return job if now == row else None


def again(session: WriteSession, jobs: Jobs, row: Row, record: Record | None, limit: float = inf) -> None:
    """Begin a job anew that the engine is done with, unless it has changed since it was looked at. One that
    was begun as often as `limit` allows, and whose end failed each time, is given up."""
    job = unchanged(session, row)
    if job is None:
        return
    attempts = job.attempts
    if record is not None and record.status == "ERROR" and attempts >= limit:
        sentence = "Stopped by an unforeseen error. The worker's log says where, under this job's id."
        give_up(session, row.kind, row.id, error=sentence, problems=[])
        return
    start_again(session, row.kind, row.id, jobs=jobs)
    job.attempts = attempts


def take_up(session: WriteSession, jobs: Jobs, kind: Kind, id: str) -> None:
    """Begin an open job anew if the engine is done with it or does not know it: it would never end."""
    job = get(session, kind, id)
    if job is None or job.state not in job_rows.OPEN or job.cancel_requested:
        return
    row = Row(kind, id, job.revision, job.state, job.cancel_requested, job.executor)
    record = jobs.records([row.workflow]).get(row.workflow)
    if record is None or record.status in ENDED:
        again(session, jobs, row, record)
