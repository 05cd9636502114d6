"""PostgreSQL is restarted under jobs at work: none fails for it, none is left, every number is right."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, make_url, select

from storage.database import read
from storage.models import Estimate, Upload
from tests import databases
from tests.acceptance.checks import assert_estimated, assert_nothing_partial, assert_whole
from tests.acceptance.dumps import dump
from tests.acceptance.processes import QUICK, database, serving, wait_for

pytestmark = pytest.mark.acceptance

UPLOADS, RESTARTS = 3, 3
ROLLOUTS, TOKENS = 160, 64
#: Once the database stays, everything has ended after so many seconds.
RECOVERED = 60.0


@pytest.fixture
def settings(empty_url: str) -> dict[str, str]:
    return {**QUICK, "VANTAGE_DATABASE_URL": empty_url, "VANTAGE_WORKER_CONCURRENCY": "2"}


def restart(url: str) -> None:
    """Stop the server of the database, its sessions cut, and start it again."""
    data = f"{make_url(url).query['host']}/data"
    user = databases.POSTGRES_USER if os.geteuid() == 0 else None
    databases.postgres("pg_ctl", "-w", "-t", "60", "-m", "fast", "-D", data, "restart", user=user)


def post(client: httpx.Client, path: str, **options: Any) -> str:
    """The id of what was asked for, once the server has taken it: it says 503 while the database is away."""

    def taken() -> str | None:
        answer = client.post(path, **options)
        assert answer.status_code in (200, 201, 202, 503), answer.text
        return None if answer.status_code == 503 else str(answer.json()["id"])

    return wait_for(taken, f"POST {path} is taken")


def batches_of(client: httpx.Client, upload_id: str) -> list[dict[str, Any]]:
    """The batches of an upload; a web process finds a cut connection when it uses it."""

    def answered() -> list[dict[str, Any]] | None:
        answer = client.get(f"/api/v1/uploads/{upload_id}")
        assert answer.status_code in (200, 503), answer.text
        return answer.json()["batches"] if answer.status_code == 200 else None

    return wait_for(answered, "the upload is shown")


def rows_in(engine: Engine, model: type[Upload] | type[Estimate], *states: str) -> list[str]:
    with read(engine) as session:
        return [str(id) for id in session.scalars(select(model.id).where(model.state.in_(states)))]


def test_restarts_of_the_database_fail_no_job_and_leave_none(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with serving(data_dir, settings) as server, server.client as client:
        engine = database(data_dir, settings)
        try:
            for number in range(RESTARTS):
                uploads = UPLOADS // RESTARTS
                for part in range(uploads):
                    content = dump(ROLLOUTS, TOKENS, run=f"run {number} {part}")
                    post(client, "/api/v1/uploads", content=content)
                restart(settings["VANTAGE_DATABASE_URL"])
            engine.dispose()

            def ended() -> bool:
                open_jobs = [rows_in(engine, model, "queued", "running") for model in (Upload, Estimate)]
                return not any(open_jobs)

            try:
                wait_for(ended, "every job ends", RECOVERED)
            except AssertionError:
                import shutil

                shutil.copy(server.log, "/tmp/hold_serve.log")
                raise
            assert len(rows_in(engine, Upload, "succeeded")) == UPLOADS
            assert rows_in(engine, Estimate, "failed", "cancelled") == []
            for upload_id in rows_in(engine, Upload, "succeeded"):
                (batch,) = batches_of(client, upload_id)
                assert_whole(engine, batch["id"], ROLLOUTS, TOKENS)
                request = {"estimator": "gae", "params": {"lam": 0.5}, "whitening": {"scope": "batch"}}
                path = f"/api/v1/batches/{batch['id']}/estimates"
                made = post(client, path, json=request, params={"wait": 60})
                assert_estimated(engine, made, ROLLOUTS)
            assert_nothing_partial(engine)
        finally:
            engine.dispose()
