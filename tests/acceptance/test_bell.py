"""A worker that looks for jobs only once in ten minutes: the bell alone brings it its work."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from app.jobs import connect, prepare
from app.settings import Settings
from storage.database import make_engine, read
from storage.models import Estimate
from tests import databases
from tests.acceptance.checks import estimate_state, upload_state
from tests.acceptance.dumps import dump
from tests.acceptance.processes import QUICK, environment, wait_for, worker_of
from tests.working import Place

pytestmark = pytest.mark.acceptance

WORKER = """
import app.worker
from app.settings import Settings

app.worker.POLL_SECONDS = 600.0
app.worker.run(Settings(), ("ingest", "estimate"))
"""


@contextmanager
def deaf_worker(data_dir: Path, settings: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=environment(data_dir, settings)) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("kind", databases.KINDS)
def test_the_bell_brings_work(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    data_dir, settings = tmp_path / "data", {**QUICK, "VANTAGE_WORKER_CONCURRENCY": "4"}
    with contextmanager(database_url)(kind, request) as url:
        if url is not None:
            settings["VANTAGE_DATABASE_URL"] = url
        chosen = Settings(data_dir=data_dir, database_url=url)
        prepare(chosen)
        engine = make_engine(chosen.url)
        with closing(connect(chosen)) as jobs, deaf_worker(data_dir, settings):
            worker_of(engine)
            upload_id, _ = Place(chosen, engine, jobs).upload(dump(8, 8))
            wait_for(lambda: upload_state(engine, upload_id)[0] == "succeeded", "the file is read")
            with read(engine) as session:
                asked = list(session.scalars(select(Estimate.id)))
            assert asked
            for estimate in asked:  # queued by the worker itself
                wait_for(partial(estimated, engine, estimate), "it is estimated")
        engine.dispose()


def estimated(engine: Engine, estimate_id: str) -> bool:
    return estimate_state(engine, estimate_id)[0] == "succeeded"


def database_url(kind: str, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None: the file in the data folder."""
    if kind == "sqlite":
        yield None
        return
    with databases.postgres_copy(request.getfixturevalue("postgres_url")) as url:
        yield url
