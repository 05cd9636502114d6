"""What every job row (`Upload`, `Estimate`, `Analysis`) can do. Each change compares and sets: none is done
twice.

queued → running → succeeded | failed | cancelled; a queued job may be cancelled or fail at once. Finished is
final: only `requeue` opens a failed or cancelled job again, under the next revision.
"""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CursorResult, Select, case, func, literal, null, select, union_all, update

from storage.database import AnySession, WriteSession
from storage.models import Analysis, Estimate, Upload
from storage.pages import Page, Sort, paginate

JobModel = type[Upload] | type[Estimate] | type[Analysis]
#: What jobs of each table are called.
KINDS: tuple[tuple[str, JobModel], ...] = (("ingest", Upload), ("estimate", Estimate), ("analysis", Analysis))
OPEN = ("queued", "running")
FINISHED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list. `kind`: "ingest" | "estimate" | "analysis"; `title`: file name, convention or
    estimator, kind of analysis."""

    kind: str
    id: str
    title: str
    batch_id: str | None
    state: str
    stage: str
    done: int
    total: int
    attempts: int
    revision: int
    cancel_requested: bool
    error: str | None
    executor: str | None
    created: float
    started: float | None
    finished: float | None


def begin_attempt(session: WriteSession, model: JobModel, id: str, executor: str) -> int:
    """Say that `executor` works on the job now. The number of this attempt, 0 where it must not be done."""
    row = session.execute(
        update(model)
        .where(model.id == id, model.state.in_(OPEN), model.cancel_requested.is_(False))
        .values(
            state="running", attempts=model.attempts + 1, executor=executor,
            started=func.coalesce(model.started, time.time()),
        )
        .returning(model.attempts)
    ).first()  # fmt: skip
    return 0 if row is None else int(row.attempts)


def got_further(session: WriteSession, model: JobModel, id: str) -> None:
    """Count this attempt as the first: those before did not come so far."""
    _changed(session, update(model).where(model.id == id, model.state == "running").values(attempts=1))


def progress(
    session: WriteSession,
    model: JobModel,
    id: str,
    done: int | None = None,
    total: int | None = None,
    stage: str | None = None,
) -> bool:
    """Write the progress of a running job; None leaves a number as it is. False where it is not running."""
    given = {"done": done, "total": total, "stage": stage}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    values = values or {"state": "running"}
    return _changed(session, update(model).where(model.id == id, model.state == "running").values(**values))


def request_cancel(session: WriteSession, model: JobModel, id: str) -> bool:
    """Ask for the end: of a queued job at once, of a running one at its next chunk. False: too late."""
    now = time.time()
    waits = model.state == "queued"
    return _changed(
        session,
        update(model)
        .where(model.id == id, model.state.in_(OPEN))
        .values(
            cancel_requested=True,
            state=case((waits, "cancelled"), else_=model.state),
            stage=case((waits, "cancelled"), else_=model.stage),
            finished=case((waits, now), else_=model.finished),
        ),
    )


def is_cancelled(session: AnySession, model: JobModel, id: str) -> bool:
    """Whether somebody asked for the end, or the job is gone."""
    found = session.execute(select(model.cancel_requested).where(model.id == id)).scalar_one_or_none()
    return found is None or found


def finish(
    session: WriteSession, model: JobModel, id: str, state: str, error: str | None = None, **columns: Any
) -> bool:
    """End a queued or running job in `state`, with further columns. False where it had ended already."""
    if state not in FINISHED:
        raise ValueError(f"{state!r} is no end; choose one of {', '.join(FINISHED)}")
    values = {**columns, "state": state, "stage": state, "error": error, "finished": time.time()}
    return _changed(session, update(model).where(model.id == id, model.state.in_(OPEN)).values(**values))


def requeue(session: WriteSession, model: JobModel, id: str) -> int | None:
    """Queue a failed or cancelled job again. The new revision, or None where it is neither."""
    row = session.execute(
        update(model)
        .where(model.id == id, model.state.in_(("failed", "cancelled")))
        .values(
            state="queued", stage="queued", revision=model.revision + 1, attempts=0, done=0, error=None,
            cancel_requested=False, executor=None, started=None, finished=None,
        )
        .returning(model.revision)
    ).first()  # fmt: skip
    return None if row is None else int(row.revision)


def page(
    session: AnySession, limit: int = 50, cursor: str | None = None, states: tuple[str, ...] = ()
) -> Page[JobRow]:
    """Jobs of every kind, newest first; `states` narrows."""
    every = union_all(
        _select(Upload, literal("ingest"), Upload.filename, null(), states),
        _select(
            Estimate, literal("estimate"), func.coalesce(Estimate.convention, Estimate.estimator),
            Estimate.batch_id, states,
        ),
        _select(Analysis, literal("analysis"), Analysis.kind, Analysis.batch_id, states),
    ).subquery()  # fmt: skip
    sort = Sort("-created", every.c.created, every.c.id, True)
    rows, following = paginate(session, select(every), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(every)).scalar_one()
    return Page([JobRow(*tuple(row)[:-2]) for row in rows], following, total)


def counts(session: AnySession) -> dict[tuple[str, str], int]:
    """How many jobs there are by (kind, state)."""
    return {
        (kind, state): count
        for kind, model in KINDS
        for state, count in session.execute(select(model.state, func.count()).group_by(model.state))
    }


def _select(model: JobModel, kind: Any, title: Any, batch_id: Any, states: tuple[str, ...]) -> Select[Any]:
    statement = select(
        kind.label("kind"), model.id.label("id"), title.label("title"), batch_id.label("batch_id"),
        model.state, model.stage, model.done, model.total, model.attempts, model.revision,
        model.cancel_requested, model.error, model.executor, model.created, model.started, model.finished,
    )  # fmt: skip
    return statement.where(model.state.in_(states)) if states else statement


def _changed(session: WriteSession, statement: Any) -> bool:
    result = session.execute(statement.execution_options(synchronize_session=False))
    return isinstance(result, CursorResult) and result.rowcount > 0
