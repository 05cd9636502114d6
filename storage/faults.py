"""Faults of the place and not of the work: the database is away or busy, the disk is full.

What failed for one of them is right as it is and can be done again once the fault is over.
"""

import errno
import sqlite3
from collections.abc import Iterator
from typing import Literal

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from storage.database_file import DatabaseGone

Fault = Literal["no space left", "database away", "database busy"]

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
#: SQLite's primary result codes. Others, as "no such column", are of the statement.
SQLITE_FULL = 13
SQLITE_BUSY = (5, 6)  # BUSY, LOCKED
SQLITE_AWAY = (8, 10, 14)  # READONLY, IOERR, CANTOPEN
#: Classes of PostgreSQL's SQLSTATE: connection, resources, operator intervention, system error, transaction
#: rollback (serialization, deadlock).
POSTGRES_AWAY = ("08", "53", "57", "58", "40")
POSTGRES_FULL = "53100"
POSTGRES_FROZEN = "25P03"  # it ended the session of a transaction that stood still


def fault_of(error: BaseException) -> Fault | None:
    """The fault that the error or one of its causes comes from; None where it is the work's own."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in NO_SPACE:
            return "no space left"
        if isinstance(cause, NoConnection):
            return "database busy"
        if isinstance(cause, DatabaseGone):
            return "database away"
        if isinstance(cause, DBAPIError) and (found := _of_statement(cause)):
            return found
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__


def _of_statement(error: DBAPIError) -> Fault | None:
    original = error.orig
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(original)
    state = getattr(original, "sqlstate", None)
    if state == POSTGRES_FULL:
        return "no space left"
    if state is not None:
        return "database away" if state[:2] in POSTGRES_AWAY or state == POSTGRES_FROZEN else None
    # Without a state the server has said nothing: the connection was cut, or never came about.
    lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return "database away" if lost else None


def sqlite_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the driver itself complains."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _of_sqlite(error: sqlite3.Error) -> Fault | None:
    code = sqlite_code(error)
    if code == SQLITE_FULL:
        return "no space left"
    if code in SQLITE_BUSY:
        return "database busy"
    return "database away" if code in SQLITE_AWAY else None
