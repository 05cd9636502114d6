"""How Alembic reaches the database: with the URL of `storage.database.migrate`, in one transaction."""

from typing import Any

from alembic import context
from sqlalchemy import Connection, Table, create_engine, event
from sqlalchemy.pool import NullPool

from storage.models import Base

LOCK = 0x76616E74  # any number, the same in every process that migrates


def include_object(item: Any, name: str | None, kind: str, reflected: bool, _other: Any) -> bool:
    """Only our own tables: the job engine keeps its own in the same database."""
    if kind == "table":
        return name in Base.metadata.tables
    table = getattr(item, "table", None)
    return not isinstance(table, Table) or table.name in Base.metadata.tables


def migrate(connection: Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    if not sqlite:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")  # one of several web servers
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=sqlite,
        include_object=include_object,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()
    if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise RuntimeError("the migration would leave rows without the row they belong to")


def prepare_sqlite(connection: Any, _record: Any) -> None:
    # Rebuilding a table drops the old one, and with foreign keys on that would delete what refers to it.
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=OFF")


def begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


url = context.config.get_main_option("sqlalchemy.url") or ""
engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
if engine.dialect.name == "sqlite":
    event.listen(engine, "connect", prepare_sqlite)
    event.listen(engine, "begin", begin_sqlite)
with engine.begin() as opened:
    migrate(opened)
