"""What endpoints ask for by type: settings, sessions, the job queue.

Sessions end before the answer leaves (`scope="function"`): an answer of success means committed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.jobs import Jobs
from app.settings import Settings
from app.shared_polls import SharedPolls
from app.visits import Visits
from app.waiters import Waiters
from storage.database import ReadSession, WriteSession, read, write


def get_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def get_engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def get_jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


def get_closing(request: Request) -> Event:
    """Set when the server goes down: whatever waits or streams ends by itself."""
    closing: Event = request.app.state.closing
    return closing


def get_waiters(request: Request) -> Waiters:
    waiters: Waiters = request.app.state.waiters
    return waiters


#: Where the scope of a request with an Idempotency-Key has its `Keyed`.
KEYED = "keyed"


@dataclass(slots=True)
class Keyed:
    """The transaction of a request with an Idempotency-Key, left open by its endpoint until the answer is
    known; `session` is None where the endpoint opened none."""

    session: WriteSession | None = None

    @contextmanager
    def begin(self, engine: Engine) -> Iterator[WriteSession]:
        """As `storage.database.write`, but not committed at the end. One of each request."""
        self.session = WriteSession(Session(engine, expire_on_commit=False))
        try:
            yield self.session
            self.session.flush()
        except BaseException:
            self.undo()
            raise

    def finish(self) -> None:
        """Commit, if anything is open."""
        if self.session is not None:
            try:
                self.session.commit()
            finally:
                self.undo()

    def undo(self) -> None:
        """Roll back what is not committed."""
        if self.session is not None:
            session, self.session = self.session, None
            session.close()


def get_polls(request: Request) -> SharedPolls:
    polls: SharedPolls = request.app.state.polls
    return polls


def get_visits(request: Request) -> Visits:
    visits: Visits = request.app.state.visits
    return visits


SettingsDep = Annotated[Settings, Depends(get_settings)]
EngineDep = Annotated[Engine, Depends(get_engine)]
ClosingDep = Annotated[Event, Depends(get_closing)]
JobsDep = Annotated[Jobs, Depends(get_jobs)]
WaitersDep = Annotated[Waiters, Depends(get_waiters)]
VisitsDep = Annotated[Visits, Depends(get_visits)]
PollsDep = Annotated[SharedPolls, Depends(get_polls)]


def reader(engine: EngineDep) -> Iterator[ReadSession]:
    """One snapshot for the whole answer."""
    with read(engine) as session:
        yield session


def writer(request: Request, engine: EngineDep) -> Iterator[WriteSession]:
    """One transaction: committed before the answer leaves, rolled back when the endpoint raises.

    With an Idempotency-Key it is committed together with the answer that is kept under the key.
    """
    keyed: Keyed | None = request.scope.get("state", {}).get(KEYED)
    with write(engine) if keyed is None else keyed.begin(engine) as session:
        yield session


Reader = Annotated[ReadSession, Depends(reader, scope="function")]
Writer = Annotated[WriteSession, Depends(writer, scope="function")]
