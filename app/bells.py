"""A bell between processes: a job waits, a job has ended. Whoever waits for it is woken at once.

Nothing depends on it. A ring may be lost, so whoever listens also looks into the database now and then.
On PostgreSQL it is NOTIFY and LISTEN. On SQLite every listener has a named pipe in a folder of the data
folder, and whoever rings writes a line to each: that needs no port, and reaches other containers that share
the folder.
"""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg
from sqlalchemy import Engine, Executable, event, func
from sqlalchemy import select as select_from
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.logs import get_logger
from app.settings import Settings
from storage.database import WriteSession, make_engine
from storage.ids import new_id

log = get_logger("vantage.bells")

Heard = Callable[[str], None]

CHANNEL = "vantage_jobs"
NAME = "vantage-bell"  # what PostgreSQL calls its sessions
#: Heard first: what was rung before, for instance while the database was away, was not heard.
READY = "listening"
FOLDER, SUFFIX = "bells", ".bell"
#: A line that every pipe takes whole.
LONGEST = 200
#: What a pipe may hold: read at once, so that no line is cut.
PIPE_BYTES = 1 << 16
AGAIN_SECONDS = 2.0
LEAVE_SECONDS = 2.0


class Bell(Protocol):
    """A bell of several processes; a ring that cannot be made is none."""

    def ring(self, text: str) -> None:
        """Ring now."""

    def ring_after(self, session: WriteSession, text: str) -> None:
        """Ring once the session's transaction is committed; where it never is, not at all."""

    def listen(self, heard: Heard, stop: threading.Event) -> None:
        """Call `heard` with READY, then with what is rung until `stop` is set and the next ring comes."""

    def close(self) -> None:
        """Let go of what ringing needs."""


def bell_of(settings: Settings) -> Bell:
    """The bell of all processes on this database."""
    if settings.url.startswith("sqlite"):
        return Pipes(settings.data_dir.resolve() / FOLDER)
    return Notices(make_engine(settings.url, pool_size=1, name=NAME))


@contextmanager
def listening(bell: Bell, heard: Heard) -> Iterator[None]:
    """Call `heard`, in a thread of its own, with whatever is rung until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=_keep_listening, args=(bell, heard, stop), daemon=True, name="bell")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        bell.ring("")
        thread.join(LEAVE_SECONDS)


def _keep_listening(bell: Bell, heard: Heard, stop: threading.Event) -> None:
    said = False
    while not stop.is_set():
        try:
            bell.listen(heard, stop)
        except Exception as error:
            # The database is away, or the folder takes no pipes: all goes on by polling.
            if not said:
                log.warning("no bell", error=type(error).__name__)
            said = True
            stop.wait(AGAIN_SECONDS)


@dataclass(frozen=True, slots=True)
class Pipes:
    """The bell of processes that share a folder."""

    folder: Path

    def ring(self, text: str) -> None:
        line = text[:LONGEST].encode() + b"\n"
        with suppress(OSError):
            for path in self.folder.iterdir():
                if path.suffix == SUFFIX:
                    _write(path, line)

    def ring_after(self, session: WriteSession, text: str) -> None:
        session.info.setdefault(FOLDER, []).append(lambda: self.ring(text))

    def listen(self, heard: Heard, stop: threading.Event) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / new_id()
        path = hidden.with_suffix(SUFFIX)
        os.mkfifo(hidden, 0o600)
        try:
            pipe = os.open(hidden, os.O_RDWR | os.O_NONBLOCK)
            try:
                hidden.rename(path)  # only now: whoever finds a pipe that nobody reads deletes it
                waiting = select.poll()
                waiting.register(pipe, select.POLLIN)
                heard(READY)
                while not stop.is_set():
                    waiting.poll()
                    for line in os.read(pipe, PIPE_BYTES).decode(errors="replace").splitlines():
                        if line:
                            heard(line)
            finally:
                os.close(pipe)
        finally:
            for left in (hidden, path):
                left.unlink(missing_ok=True)

    def close(self) -> None:
        pass


def _write(path: Path, line: bytes) -> None:
    """Write to a listener's pipe. One that is full wakes its reader anyway; one without a reader was left."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError:
        path.unlink(missing_ok=True)
        return
    try:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(pipe, line)
    finally:
        os.close(pipe)


@event.listens_for(Session, "after_commit")
def _ring_those(session: Session) -> None:
    for ring in session.info.pop(FOLDER, ()):
        ring()


@dataclass(frozen=True, slots=True)
class Notices:
    """The bell of processes with one PostgreSQL."""

    engine: Engine

    def ring(self, text: str) -> None:
        with suppress(SQLAlchemyError), self.engine.begin() as connection:
            connection.execute(notify(text))

    def ring_after(self, session: WriteSession, text: str) -> None:
        session.execute(notify(text))  # PostgreSQL waits for the commit itself

    def listen(self, heard: Heard, stop: threading.Event) -> None:
        address = self.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True, application_name=NAME) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            heard(READY)
            for notice in connection.notifies():
                if stop.is_set():
                    return
                if notice.payload:
                    heard(notice.payload)

    def close(self) -> None:
        self.engine.dispose()


def notify(text: str) -> Executable:
    return select_from(func.pg_notify(CHANNEL, text[:LONGEST]))
