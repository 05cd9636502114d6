"""Fixtures for every test: a fresh, migrated database, on both kinds unless a test asks for SQLite alone."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

import app  # noqa: F401  # for what it does: sets how torch's threads wait, before torch is loaded
from app.attempts import FAILED
from storage.database import make_engine
from tests import databases


@pytest.fixture(autouse=True)
def no_check_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """A check that raises costs no row, so a test would not see it: it does here, unless it plants one."""
    before = Counter(FAILED)
    yield
    if request.node.get_closest_marker("failing_checks") is None:
        assert FAILED - before == Counter(), "a check raised"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty, migrated SQLite file to copy."""
    return databases.sqlite_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the process's PostgreSQL, with `{name}` where the database's name goes."""
    with databases.postgres_server(tmp_path_factory.getbasetemp().parent / "postgres.lock") as url:
        yield url


@pytest.fixture(params=databases.KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a fresh, migrated database: the test runs once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        yield databases.copy_sqlite(request.getfixturevalue("sqlite_template"), tmp_path)
    else:
        with databases.postgres_copy(request.getfixturevalue("postgres_url")) as url:
            yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on a fresh, migrated database of each kind."""
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """URL of a fresh, migrated SQLite file, for tests where the kind of database cannot matter."""
    return databases.copy_sqlite(sqlite_template, tmp_path)


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    """An engine on a fresh, migrated SQLite file."""
    engine = make_engine(sqlite_url)
    yield engine
    engine.dispose()


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """A PostgreSQL database without a table; the server may be restarted meanwhile."""
    run_by_admin(postgres_url, "CREATE DATABASE empty")
    try:
        yield postgres_url.format(name="empty")
    finally:
        run_by_admin(postgres_url, "DROP DATABASE empty WITH (FORCE)")


def run_by_admin(url: str, statement: str) -> None:
    with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())
