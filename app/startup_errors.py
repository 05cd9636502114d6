"""What keeps a command from starting, as one sentence: a damaged, foreign or newer database, a full disk."""

import errno
import sqlite3

from sqlalchemy.exc import DatabaseError, OperationalError

from storage.database import DatabaseGone, NewerSchema

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
#: A part of SQLite's message, and what it means here.
MEANINGS = (
    ("not a database", FOREIGN),
    ("malformed", DAMAGED),
    ("disk I/O error", DAMAGED),
    ("database or disk is full", FULL),
    ("readonly", READ_ONLY),
    ("read-only", READ_ONLY),
    ("unable to open", READ_ONLY),
)


def sentence(error: BaseException) -> str | None:
    """What a person can do about it; None for an error that nobody foresaw."""
    if isinstance(error, NewerSchema | DatabaseGone):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return FULL
    cause = error.orig if isinstance(error, DatabaseError) else error
    if isinstance(cause, sqlite3.DatabaseError):
        text = str(cause)
        return next((meaning for part, meaning in MEANINGS if part in text), None)
    return AWAY if isinstance(error, OperationalError) else None
