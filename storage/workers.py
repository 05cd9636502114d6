"""Worker processes: who lives, who fell silent, whose jobs were handed back. Times are Unix seconds."""

import time
from typing import Any

from sqlalchemy import select, update

from storage.database import AnySession, WriteSession
from storage.models import Worker


def register(
    session: WriteSession, executor_id: str, host: str, pid: int, device: str, queues: list[Any]
) -> Worker:
    """A worker that has just started."""
    now = time.time()
    worker = Worker(
        executor_id=executor_id, host=host, pid=pid, device=device, queues=queues, started=now, seen=now
    )
    session.add(worker)
    session.flush()
    return worker


def beat(session: WriteSession, executor_id: str, now: float | None = None) -> bool:
    """Say that the worker lives. False where its jobs were given to others meanwhile (or it is unknown)."""
    statement = update(Worker).where(Worker.executor_id == executor_id).values(seen=now or time.time())
    row = session.execute(statement.returning(Worker.reaped)).first()
    return row is not None and row.reaped is None


def dead(session: AnySession, older_than: float) -> list[Worker]:
    """Workers last seen before the moment `older_than` that neither stopped nor were reaped."""
    statement = select(Worker).where(
        Worker.seen < older_than, Worker.stopped.is_(None), Worker.reaped.is_(None)
    )
    return list(session.execute(statement.order_by(Worker.seen)).scalars())


def unreaped(session: AnySession) -> list[Worker]:
    """Workers that neither stopped nor were reaped, longest silent first: alive, or not found dead yet."""
    statement = select(Worker).where(Worker.stopped.is_(None), Worker.reaped.is_(None))
    return list(session.execute(statement.order_by(Worker.seen)).scalars())


def mark_reaped(session: WriteSession, executor_id: str) -> bool:
    """After its jobs went back to the queue. False where another did it first."""
    statement = update(Worker).where(Worker.executor_id == executor_id, Worker.reaped.is_(None))
    changed = session.execute(statement.values(reaped=time.time()).returning(Worker.executor_id))
    return changed.first() is not None


def stop(session: WriteSession, executor_id: str) -> None:
    """The worker left in good order, its jobs handed back."""
    session.execute(update(Worker).where(Worker.executor_id == executor_id).values(stopped=time.time()))


def list_all(session: AnySession, since: float = 0.0) -> list[Worker]:
    """Workers seen at or after `since`, the latest first."""
    statement = select(Worker).where(Worker.seen >= since).order_by(Worker.seen.desc(), Worker.executor_id)
    return list(session.execute(statement).scalars())


def seen(session: AnySession, since: float) -> bool:
    """Whether some worker that did not stop was seen at or after the moment `since`."""
    statement = select(Worker.executor_id).where(Worker.seen >= since, Worker.stopped.is_(None)).limit(1)
    return session.execute(statement).first() is not None
