"""What keeps a command from starting, as one sentence: a damaged, foreign or newer database, a full disk."""

import sqlite3

from sqlalchemy.exc import DatabaseError, OperationalError

from storage.database import NewerSchema
from storage.database_file import DatabaseGone
from storage.faults import fault_of, sqlite_code

DAMAGED = (
    "The database file is damaged. `vantage check` says what of it can still be read; restore a backup, or "
    "start with another folder (--data-dir)."
)
FOREIGN = (
    "The file vantage.db in the data folder is not a Vantage database. Move it away, or name another folder "
    "with --data-dir."
)
FULL = "There is no space left on the disk of the data folder. Make room, or name another with --data-dir."
READ_ONLY = "The database cannot be written: its file or folder is read-only. Change its permissions."
AWAY = (
    "The database does not answer. See that it runs and that the URL (VANTAGE_DATABASE_URL, --database-url) "
    "is right."
)
#: SQLite's primary result codes: CORRUPT, IOERR; NOTADB; READONLY, CANTOPEN.
MEANINGS = {11: DAMAGED, 10: DAMAGED, 26: FOREIGN, 8: READ_ONLY, 14: READ_ONLY}


def sentence(error: BaseException) -> str | None:
    """What a person can do about it; None for an error that nobody foresaw."""
    if isinstance(error, NewerSchema | DatabaseGone):
        return str(error)
    if fault_of(error) == "no space left":
        return FULL
    cause = error.orig if isinstance(error, DatabaseError) else error
    if isinstance(cause, sqlite3.DatabaseError):
        return MEANINGS.get(sqlite_code(cause))
    return AWAY if isinstance(error, OperationalError) else None
