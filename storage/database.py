"""Engine, sessions and migrations. The one place that knows which database it is.

Readers and writers are different types: a function that takes a `ReadSession` cannot be handed a writer, and
every write is one short transaction that is committed before its answer leaves.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NewType

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.pq import Format
from sqlalchemy import Engine, Executable, create_engine, event, func, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Session

from storage.database_file import FileWatch

ReadSession = NewType("ReadSession", Session)
WriteSession = NewType("WriteSession", Session)
AnySession = ReadSession | WriteSession

READ_SQLITE: dict[str, Any] = {"vantage_read": True}
READ_POSTGRES: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
#: Execution options of queries for blobs and many numbers. PostgreSQL's text form of a blob is twice as long.
BINARY = {"vantage_binary": True}
BUSY_MS = 30_000  # how long a SQLite writer waits for another
#: Pages of SQLite's log (64 MiB) from which a commit folds it into the file. Workers do it sooner, after a
#: job: within one it would take as long as writing the job's results does.
LOG_PAGES = 16_384
INCREMENTAL = 2  # SQLite's number for `auto_vacuum = INCREMENTAL`
#: Pages (8 MiB) that are given back in one transaction: others wait for it a few milliseconds.
FREED_PAGES = 2048
MIGRATIONS = Path(__file__).parent / "migrations"


class NewerSchema(Exception):
    """The database was written by a newer Vantage than this one."""


def make_engine(
    url: str, pool_size: int = 40, name: str = "vantage", repeatable: bool = False, read_only: bool = False
) -> Engine:
    """An engine for `sqlite:///path` or `postgresql://…`. SQLite: WAL, full durability, immediate writers.

    `name`: what PostgreSQL calls its sessions, so that another process can end them (`end_sessions`).
    `repeatable`: what is written can be written again, as a job's results can. Then SQLite's commits do not
    wait for the disk: a crash of the machine may undo the last of them, in order and each as a whole.
    `read_only`: a SQLite file is opened as it is, also from a folder that cannot be written.
    What a statement was given is in no message of an error: it may be the text of a rollout.
    """
    if url.startswith("sqlite"):
        engine = create_engine(
            url, pool_size=pool_size, max_overflow=10, hide_parameters=True,
            connect_args={"timeout": BUSY_MS / 1000},
        )  # fmt: skip
        synchronous = None if read_only else "NORMAL" if repeatable else "FULL"
        event.listen(engine, "connect", partial(_prepare_sqlite, synchronous))
        watch = FileWatch(engine.url.database)
        event.listen(engine, "do_connect", watch.before_connect)
        event.listen(engine, "connect", watch.connected)
        event.listen(engine, "begin", watch.begun)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(
        psycopg_url(url), pool_size=pool_size, max_overflow=10, hide_parameters=True,
        connect_args={"application_name": name},
    )  # fmt: skip
    event.listen(engine, "before_cursor_execute", _ask_in_binary)
    return engine


def psycopg_url(url: str) -> str:
    """The URL with the driver that is installed, whichever of the usual spellings it came in."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def _prepare_sqlite(synchronous: str | None, connection: Any, _record: Any) -> None:
    # The driver's own transaction handling is off: _begin_sqlite says how each one starts.
    connection.isolation_level = None
    if synchronous is None:  # to be read only: nothing of the file is set
        return
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        # Takes effect in a new file only, before anything else is set.
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
    pragmas = {
        "journal_mode": "WAL", "synchronous": synchronous, "busy_timeout": BUSY_MS, "foreign_keys": "ON",
        "wal_autocheckpoint": LOG_PAGES,
    }  # fmt: skip
    for name, value in pragmas.items():
        connection.execute(f"PRAGMA {name}={value}")


class Repeatable(sqlite3.Connection):
    """For engines that are made elsewhere: a connection with what `repeatable` means for `make_engine`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execute("PRAGMA synchronous=NORMAL")
        self.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")


def _begin_sqlite(connection: Any) -> None:
    # A reader that later writes would meet SQLITE_BUSY_SNAPSHOT; writers therefore say so at once.
    reads = bool(connection.get_execution_options().get("vantage_read"))
    connection.exec_driver_sql(f"PRAGMA query_only={int(reads)}")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _ask_in_binary(
    _connection: Any, cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    # Not for every query: SQLAlchemy's own look at the schema wants PostgreSQL's vectors as text.
    if context is not None and context.execution_options.get("vantage_binary"):
        cursor.format = Format.BINARY


@contextmanager
def read(engine: Engine) -> Iterator[ReadSession]:
    """A session for reading: one snapshot from its first query on; the database refuses to write in it."""
    options = READ_POSTGRES if engine.dialect.name == "postgresql" else READ_SQLITE
    with Session(engine.execution_options(**options), autoflush=False) as session:
        yield ReadSession(session)


@contextmanager
def write(engine: Engine) -> Iterator[WriteSession]:
    """A session for one short write transaction: committed on a clean exit, else rolled back.

    Objects from it stay readable afterwards.
    """
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield WriteSession(session)


def checkpoint(engine: Engine, cut: bool = True) -> None:
    """SQLite: fold the write-ahead log into the file and cut it, as after a large ingest; else nothing.

    Waits for nobody: where a reader is in its way, the log is cut another time. Where it need not be `cut`,
    nobody waits for this either, and the next writer begins it anew.
    """
    if engine.dialect.name != "sqlite":
        return
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        cursor.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if cut else 'PASSIVE'})")
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")


def give_back_space(engine: Engine) -> bool:
    """SQLite: cut some free pages off the file, in one short transaction. Whether there are more.

    Only files made with incremental vacuum on, as new ones are, can be cut so.
    """
    if engine.dialect.name != "sqlite":
        return False
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        if cursor.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
            return False
        cursor.execute("PRAGMA query_only=0")  # the last to have the connection may have been a reader
        cursor.execute(f"PRAGMA incremental_vacuum({FREED_PAGES})").fetchall()
        left = int(cursor.execute("PRAGMA freelist_count").fetchone()[0])
    if not left:
        checkpoint(engine)
    return left > 0


def hold(session: WriteSession, name: str) -> None:
    """Let no other transaction hold the same name until this one ends. SQLite's writers take turns anyway."""
    if session.get_bind().dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        session.execute(select(func.pg_advisory_xact_lock(key)))


def end_sessions(engine: Engine, name: str) -> int:
    """PostgreSQL: end every session of the engines that are called `name`, wherever they stand, and so free
    their locks; how many. Needs no right but to be the same database user. SQLite has no sessions: 0."""
    if engine.dialect.name != "postgresql":
        return 0
    ended = text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name = :name AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    with read(engine) as session:
        return int(session.scalar(ended, {"name": name}) or 0)


def upsert(session: WriteSession, model: type[DeclarativeBase], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows (column -> value, all with the same keys); one whose primary key is there is replaced."""
    if rows:
        statement = _upsert(session.get_bind().dialect.name, model, tuple(rows[0]))
        session.execute(statement, list(rows))


@cache
def _upsert(dialect: str, model: type[DeclarativeBase], names: tuple[str, ...]) -> Executable:
    """Kept, as making it anew takes longer than inserting a few rows."""
    statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(model)
    keys = [column.name for column in inspect(model).primary_key]
    values = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=values)


def insert_new(
    session: WriteSession, model: type[DeclarativeBase], row: Mapping[str, Any], keys: Sequence[str]
) -> bool:
    """Insert the row unless one with the same unique `keys` is there. True where it was inserted.

    Safe against another writer doing the same at the same time.
    """
    make = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = make(model).values(dict(row)).on_conflict_do_nothing(index_elements=list(keys))
    first = inspect(model).primary_key[0]
    return session.execute(statement.returning(first)).first() is not None


def alembic_config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", psycopg_url(url).replace("%", "%%"))
    return config


def migrate(url: str) -> None:
    """Bring the schema to the newest revision; does nothing where it is there already. Raises NewerSchema."""
    engine = make_engine(url, pool_size=1)
    try:
        refuse_newer(engine)
    finally:
        engine.dispose()
    command.upgrade(alembic_config(url), "head")


def schema_is_current(engine: Engine, url: str) -> bool:
    heads = set(ScriptDirectory.from_config(alembic_config(url)).get_heads())
    return _revisions(engine) == heads


def refuse_newer(engine: Engine) -> None:
    """Raises NewerSchema where the schema has a revision that this version does not know."""
    known = {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    unknown = sorted(_revisions(engine) - known)
    if unknown:
        raise NewerSchema(
            f"The database was written by a newer version of Vantage (schema revision {unknown[0][:32]}). "
            "Install that version or a later one; this one changes nothing in it."
        )


def _revisions(engine: Engine) -> set[str]:
    """The revisions that the schema is at. Reads only: no probe waits for a writer."""
    with read(engine) as session:
        return set(MigrationContext.configure(session.connection()).get_current_heads())
