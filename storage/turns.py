"""One process at a time: who brings the schema up to date, while the others wait and say so."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, text

from storage.database import make_engine

LOCK = 20240117  # any number, the same in every process
LOOK_SECONDS = 0.25
SAY_SECONDS = 10.0

#: Called when a turn has to be waited for, and again every SAY_SECONDS, with the seconds waited so far.
Waiting = Callable[[float], None]


@contextmanager
def turn(url: str, folder: Path, waiting: Waiting) -> Iterator[None]:
    """Let no other process of the database (on SQLite: of the folder) be in here at the same time.

    However a process ends, its turn ends with it.
    """
    if url.startswith("sqlite"):
        with open(folder / "migrate.lock", "w") as lock:
            _take(lambda: _flock(lock), waiting)
            yield
        return
    engine = make_engine(url, pool_size=1)
    try:
        # In no transaction: one that is open, if only to wait for the lock, has a snapshot, and CREATE INDEX
        # CONCURRENTLY in the turn of another process waits until all older snapshots are gone.
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            _take(lambda: _advisory(connection), waiting)
            yield
    finally:
        engine.dispose()


def _take(attempt: Callable[[], bool], waiting: Waiting) -> None:
    began = time.monotonic()
    said = 0.0
    while not attempt():
        passed = time.monotonic() - began
        if passed >= said:
            waiting(passed)
            said = passed + SAY_SECONDS
        time.sleep(LOOK_SECONDS)  # no signal tells that another process has let go of the lock


def _flock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _advisory(connection: Connection) -> bool:
    return bool(connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": LOCK}))
