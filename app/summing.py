"""What is said of a batch that is all stored and not visible yet: statistics, findings, what made its
recorded advantages, which estimates come first. Whatever fails here costs no row: it is noted as not checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app import findings, reconciling
from app.analysis import expect
from app.attempts import FINDINGS, FIRST_ESTIMATES, RECONCILIATION, STATISTICS, Attempts
from app.defaults import default_requests
from app.estimation import ask, forget_step, parse
from app.intake import Shelf
from app.jobs import BULK
from app.tasks import Task
from estimators import Request
from storage import batches, rollouts, unchecked, uploads
from storage.database import WriteSession, read
from storage.models import Upload


@dataclass(frozen=True, slots=True)
class Summed:
    """`columns`: of `storage.batches.finish`. `reconciliation`: None where there is none yet. `requests`: of
    the first estimates, the main one first."""

    columns: dict[str, Any] = field(default_factory=dict)
    reconciliation: dict[str, Any] | None = None
    requests: tuple[Request, ...] = ()
    attempts: Attempts = field(default_factory=Attempts)


def may_look(task: Task, upload: Upload) -> bool:
    """Whether to look at the batches. Not where the workers before this one died doing so: this is the last
    that tries, and every row is stored already (a chunk that is stored begins the count of attempts anew)."""
    with read(task.engine) as session:
        row = uploads.get(session, upload.id)
        attempts = 0 if row is None else row.attempts
    return attempts < max(2, task.settings.max_attempts)


def unseen(shelf: Shelf) -> Summed:
    """A batch that nobody could look at."""
    attempts = Attempts({"batch": shelf.id}, dict([STATISTICS, FINDINGS]))
    return Summed(requests=requests_of(shelf, attempts), attempts=attempts)


def sum_up(task: Task, shelf: Shelf, in_time: bool) -> Summed:
    """Statistics and findings of the batch; and what made its recorded advantages, where it has any and there
    is time to say it now."""
    made, attempts = None, Attempts({"batch": shelf.id})
    # Sessions of their own: after an error in a query PostgreSQL answers nothing more in the same one.
    if in_time and shelf.tokens <= reconciling.MOST_TOKENS:
        made = attempts.do(RECONCILIATION, partial(_reconciled, task, shelf, attempts), None)
    columns: dict[str, Any] = attempts.do(FINDINGS, partial(_looked_at, task, shelf, made, attempts), {})
    if not columns:
        attempts.failed |= dict([STATISTICS])
    return Summed(columns, made, requests_of(shelf, attempts), attempts)


def _reconciled(task: Task, shelf: Shelf, attempts: Attempts) -> dict[str, Any] | None:
    with read(task.engine) as session:
        fields = shelf.provenance()
        return reconciling.at_once(session, shelf.id, fields, shelf.header, shelf.format, attempts)


def _looked_at(task: Task, shelf: Shelf, made: dict[str, Any] | None, attempts: Attempts) -> dict[str, Any]:
    """What `storage.batches.finish` is to keep."""
    with read(task.engine) as session:
        light = rollouts.columns(session, shelf.id)
        statistics, said = findings.assess(
            session, shelf.id, shelf.provenance(), shelf.header, made or {}, light, attempts
        )
    return {"statistics": statistics, "findings": said, "light": light}


def requests_of(shelf: Shelf, attempts: Attempts) -> tuple[Request, ...]:
    """The first estimates, spelt out."""
    return attempts.do(FIRST_ESTIMATES, lambda: tuple(map(parse, default_requests(shelf))), ())


def announce(session: WriteSession, task: Task, shelf: Shelf, summed: Summed) -> None:
    """Ask for the first estimates and the reconciliation, and for estimates whose history the batch is in."""
    batch = batches.get(session, shelf.id)
    assert batch is not None
    attempts = summed.attempts

    def estimates() -> None:
        for request in summed.requests:
            ask(session, task.jobs, batch, request, BULK, default=True)

    attempts.do(FIRST_ESTIMATES, partial(apart, session, estimates), None)
    if reconciling.recorded_in(shelf.provenance()):
        expected = partial(expect, session, task.jobs, shelf.id, summed.reconciliation)
        attempts.do(RECONCILIATION, partial(apart, session, expected), None)
    unchecked.record(session, shelf.id, attempts.failed)
    forget_step(session, task.jobs, batch.run_id, batch.split, batch.step)


def apart(session: WriteSession, work: Callable[[], None]) -> None:
    """Do the work so that nothing but itself is undone where it fails."""
    with session.begin_nested():
        work()
