"""SQLite databases of strangers: opened read-only, as they lie, their schema not trusted, within limits."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.ingest.record import Source, Unreadable

MAGIC = b"SQLite format 3\0"
MAX_BYTES = 8 << 30
MAX_VALUE = 256 << 20
SECONDS = 300.0
#: Steps of SQLite's machine between looks at the clock.
STEPS = 100_000
DAMAGED = (sqlite3.Error, OverflowError, ValueError)


@contextmanager
def opened(source: Source) -> Iterator[sqlite3.Connection]:
    """The database; texts come as bytes. Raises Unreadable."""
    if source.path is None or not source.head.startswith(MAGIC):
        raise Unreadable("this is not an SQLite database.", "not_sqlite")
    if source.path.stat().st_size > MAX_BYTES:
        raise Unreadable(f"at most {MAX_BYTES >> 30} GiB of SQLite are read.", "too_large")
    with closing(_connect(source.path)) as connection:
        yield connection


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
    except DAMAGED:
        raise Unreadable("the SQLite database cannot be opened; copy it again.", "sqlite_damaged") from None
    connection.text_factory = bytes
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 20)
    end = time.monotonic() + SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON", "mmap_size=0"):
            connection.execute(f"PRAGMA {pragma}")
    except DAMAGED:
        connection.close()
        raise Unreadable("the SQLite database is damaged; copy it again.", "sqlite_damaged") from None
    return connection


def tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Names of the plain tables with their columns: no views, nothing virtual. Raises sqlite3.Error."""
    found = {}
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type='table' AND sql LIKE 'CREATE TABLE%'"
    )
    for (name,) in rows.fetchall():
        if isinstance(name, bytes) and name.isascii() and name.decode().isidentifier():
            columns = connection.execute(f"PRAGMA table_info({name.decode()})").fetchall()
            found[name.decode()] = frozenset(
                column[1].decode("utf-8", "replace") for column in columns if isinstance(column[1], bytes)
            )
    return found


def in_wal_mode(source: Source) -> bool:
    """Whether newer rows may lie in a file beside it (bytes 18 and 19 of the header)."""
    return source.head[18:20] == b"\x02\x02"
