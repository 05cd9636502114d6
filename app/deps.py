"""What endpoints ask for by type: settings, sessions, the job queue.

Sessions end before the answer leaves (`scope="function"`): an answer of success means committed.
"""

from collections.abc import Iterator
from threading import Event
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine

from app.jobs import Jobs
from app.settings import Settings
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


SettingsDep = Annotated[Settings, Depends(get_settings)]
EngineDep = Annotated[Engine, Depends(get_engine)]
ClosingDep = Annotated[Event, Depends(get_closing)]
JobsDep = Annotated[Jobs, Depends(get_jobs)]
WaitersDep = Annotated[Waiters, Depends(get_waiters)]


def reader(engine: EngineDep) -> Iterator[ReadSession]:
    """One snapshot for the whole answer."""
    with read(engine) as session:
        yield session


def writer(engine: EngineDep) -> Iterator[WriteSession]:
    """One transaction: committed before the answer leaves, rolled back when the endpoint raises."""
    with write(engine) as session:
        yield session


Reader = Annotated[ReadSession, Depends(reader, scope="function")]
Writer = Annotated[WriteSession, Depends(writer, scope="function")]
