"""PostgreSQL, a web process, two workers: one freezes, one dies, and each job is done once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from storage.database import read
from storage.models import Upload, Worker
from tests import databases
from tests.acceptance.checks import assert_estimated, assert_nothing_partial, assert_whole, upload_state
from tests.acceptance.dumps import dump
from tests.acceptance.processes import QUICK, database, live_workers, running, serving, wait_for

pytestmark = pytest.mark.acceptance

ROLLOUTS, TOKENS = 160, 64


@pytest.fixture
def settings(postgres_url: str) -> Iterator[dict[str, str]]:
    with databases.postgres_copy(postgres_url) as url:
        yield {**QUICK, "VANTAGE_DATABASE_URL": url}


@pytest.fixture
def engine(settings: dict[str, str], tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "data").mkdir()
    engine = database(tmp_path / "data", settings)
    yield engine
    engine.dispose()


def holder(engine: Engine, upload_id: str) -> str | None:
    """The worker that is in the middle of this ingest."""
    with read(engine) as session:
        row = session.get_one(Upload, upload_id)
        return row.executor if row.state == "running" and 0 < row.done < row.total else None


def pid_of(engine: Engine, executor: str) -> int:
    with read(engine) as session:
        return session.get_one(Worker, executor).pid


def finish(engine: Engine, client: httpx.Client, upload_id: str) -> str:
    """Wait for the ingest, look at every number of it: its batch."""
    wait_for(lambda: upload_state(engine, upload_id)[0] == "succeeded", "the ingest succeeds")
    (batch,) = client.get(f"/api/v1/uploads/{upload_id}").json()["batches"]
    assert_whole(engine, batch["id"], ROLLOUTS, TOKENS)
    return str(batch["id"])


def test_one_worker_takes_over_from_another(tmp_path: Path, settings: dict[str, str], engine: Engine) -> None:
    data_dir = tmp_path / "data"
    with (
        serving(data_dir, settings, "web") as web,
        running("worker-1", data_dir, settings, "worker"),
        running("worker-2", data_dir, settings, "worker"),
    ):
        wait_for(lambda: len(live_workers(engine)) == 2, "both workers live")
        with web.client as client:

            def post(run: str) -> str:
                answer = client.post("/api/v1/uploads", content=dump(ROLLOUTS, TOKENS, run=run))
                assert answer.status_code in (201, 202), answer.text
                return str(answer.json()["id"])

            frozen_job = post("frozen")
            frozen = wait_for(lambda: holder(engine, frozen_job), "a worker is in the middle")
            pid = pid_of(engine, frozen)
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: owner(engine, frozen_job) not in (None, frozen), "another worker takes over")
            os.kill(pid, signal.SIGCONT)
            finish(engine, client, frozen_job)
            wait_for(lambda: frozen not in names(engine), "the one that froze leaves")

            with running("worker-3", data_dir, settings, "worker"):
                wait_for(lambda: len(live_workers(engine)) == 2, "both workers live again")
                killed_job = post("killed")
                killed = wait_for(lambda: holder(engine, killed_job), "a worker is in the middle")
                os.kill(pid_of(engine, killed), signal.SIGKILL)
                batch_id = finish(engine, client, killed_job)
                request = {"estimator": "gae", "params": {"lam": 0.5}, "whitening": {"scope": "batch"}}
                made = client.post(f"/api/v1/batches/{batch_id}/estimates", json=request, params={"wait": 60})
                assert_estimated(engine, made.json()["id"], ROLLOUTS)
        assert_nothing_partial(engine)


def names(engine: Engine) -> list[str]:
    return [worker.executor_id for worker in live_workers(engine)]


def owner(engine: Engine, upload_id: str) -> str | None:
    """The worker that has begun this ingest last."""
    with read(engine) as session:
        return session.get_one(Upload, upload_id).executor
