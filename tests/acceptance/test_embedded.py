"""`vantage serve` on SQLite: killed in the middle of everything, and nothing is lost or done twice."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, select

from storage.database import read
from storage.models import Batch, Estimate, Upload
from tests.acceptance.checks import (
    assert_estimated,
    assert_nothing_partial,
    assert_whole,
    estimate_state,
    upload_state,
)
from tests.acceptance.dumps import dump
from tests.acceptance.processes import (
    QUICK,
    Server,
    database,
    run_command,
    runs,
    serving,
    wait_for,
    worker_of,
)

pytestmark = pytest.mark.acceptance

ROLLOUTS, TOKENS = 160, 64


@dataclass
class Site:
    """A served installation and the test's own view of its database."""

    data_dir: Path
    engine: Engine
    server: Server
    client: httpx.Client

    def post(self, content: bytes, **query: Any) -> str:
        answer = self.client.post("/api/v1/uploads", params=query, content=content)
        assert answer.status_code in (201, 202), answer.text
        return str(answer.json()["id"])

    def receipt(self, upload_id: str) -> dict[str, Any]:
        body: dict[str, Any] = self.client.get(f"/api/v1/uploads/{upload_id}").json()
        return body

    def ingested(self, upload_id: str) -> str:
        """Wait for the ingest to succeed: the batch it made."""

        def over() -> bool:
            state = upload_state(self.engine, upload_id)[0]
            assert state not in ("failed", "cancelled")
            return state == "succeeded"

        wait_for(over, "the ingest succeeds")
        (batch,) = self.receipt(upload_id)["batches"]
        return str(batch["id"])

    def in_the_middle(self, upload_id: str) -> None:
        wait_for(lambda: upload_state(self.engine, upload_id)[1] > 0, "the ingest is in the middle")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One installation for the tests that leave its server alive."""
    data_dir = tmp_path_factory.mktemp("site") / "data"
    with serving(data_dir) as server, server.client as client:
        engine = database(data_dir, QUICK)
        yield Site(data_dir, engine, server, client)
        engine.dispose()


def gone(pid: int) -> bool:
    return not runs(pid)


def kill_worker(engine: Engine, progress: Callable[[], tuple[str, int]], times: int) -> None:
    """Kill the living worker `times` times, each time after the job (its state and number) has gone on."""
    done = 0
    for _ in range(times):
        pid = worker_of(engine).pid

        def further(before: int = done) -> int:
            state, now = progress()
            assert state != "succeeded", "the job was too short for this test"
            return now if state == "running" and now > before else 0

        done = wait_for(further, "the job goes on")
        os.kill(pid, signal.SIGKILL)
        wait_for(partial(gone, pid), "the worker is gone")


def test_a_killed_worker_loses_nothing(site: Site) -> None:
    upload_id = site.post(dump(ROLLOUTS, TOKENS))
    kill_worker(site.engine, lambda: upload_state(site.engine, upload_id)[:2], 2)
    batch_id = site.ingested(upload_id)
    assert site.receipt(upload_id)["counts"] == {"rows": ROLLOUTS, "accepted": ROLLOUTS, "rejected": 0}
    assert_whole(site.engine, batch_id, ROLLOUTS, TOKENS)

    request = {"estimator": "gae", "params": {"lam": 0.9}, "whitening": {"scope": "batch"}}
    made = site.client.post(f"/api/v1/batches/{batch_id}/estimates", json=request)
    assert made.status_code in (201, 202), made.text
    estimate_id = made.json()["id"]
    kill_worker(site.engine, lambda: estimate_state(site.engine, estimate_id), 1)
    wait_for(lambda: estimate_state(site.engine, estimate_id)[0] == "succeeded", "the estimate succeeds")
    assert_estimated(site.engine, estimate_id, ROLLOUTS)
    assert_nothing_partial(site.engine)
    checked = run_command(site.data_dir, QUICK, "check")
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_a_worker_that_is_asked_to_stop_hands_its_job_back(site: Site) -> None:
    rollouts = 600  # hardly to be finished before it has to leave
    upload_id = site.post(dump(rollouts, TOKENS, run="handed-back"))
    site.in_the_middle(upload_id)
    first = worker_of(site.engine)
    os.kill(first.pid, signal.SIGTERM)
    wait_for(partial(gone, first.pid), "the worker has left")
    batch_id = site.ingested(upload_id)
    assert_whole(site.engine, batch_id, rollouts, TOKENS)


def test_a_running_ingest_is_cancelled(site: Site) -> None:
    upload_id = site.post(dump(2000, TOKENS, run="cancelled"))
    site.in_the_middle(upload_id)
    assert site.client.delete(f"/api/v1/uploads/{upload_id}").status_code in (200, 202, 204)
    wait_for(lambda: upload_state(site.engine, upload_id)[0] == "cancelled", "the ingest is cancelled")
    assert_nothing_partial(site.engine)
    assert site.receipt(upload_id)["batches"] == []
    site.ingested(site.post(dump(8, 16, run="after")))
    assert "Traceback" not in site.server.log.read_text()


def test_a_second_server_is_refused_and_files_come_in_beside_the_first(site: Site, tmp_path: Path) -> None:
    second = run_command(site.data_dir, QUICK, "serve", "--port", "0")
    assert second.returncode == 2
    assert "Another `vantage serve` uses this data folder." in second.stderr
    (tmp_path / "1.jsonl").write_bytes(dump(8, 16, run="theirs"))
    beside = run_command(site.data_dir, QUICK, "ingest", str(tmp_path / "1.jsonl"), "--run", "other")
    assert beside.returncode == 0, beside.stderr
    assert "other step 1: 8 rollouts in 2 groups" in beside.stdout


def test_files_come_in_without_a_server(tmp_path: Path) -> None:
    data_dir, folder = tmp_path / "data", tmp_path / "dumps"
    folder.mkdir()
    for step in (1, 2):
        (folder / f"{step}.jsonl").write_bytes(dump(8, 16, run="by-hand", step=step))
    alone = run_command(data_dir, QUICK, "ingest", str(folder))
    assert alone.returncode == 0, alone.stderr
    assert "16 rows, 16 accepted, 0 rejected" in alone.stdout
    engine = database(data_dir, QUICK)
    with read(engine) as session:
        assert set(session.scalars(select(Estimate.state))) == {"succeeded"}, "the estimates are there too"
    engine.dispose()


def send(server: Server, lane: int, acknowledged: list[str]) -> None:
    """Upload one small dump after the other until the server is gone."""
    with server.client as client:
        for step in range(1000):
            try:
                answer = client.post("/api/v1/uploads", content=dump(8, 16, run=f"lane-{lane}", step=step))
            except httpx.TransportError:
                return
            if answer.status_code in (201, 202):
                acknowledged.append(answer.json()["id"])


def send_half(server: Server, content: bytes, cut: threading.Event) -> None:
    """Send the first half of an upload and keep the second until the server is gone."""

    def halting() -> Iterator[bytes]:
        yield content[: len(content) // 2]
        cut.wait(120)
        yield content[len(content) // 2 :]

    with server.client as client, pytest.raises(httpx.TransportError):
        client.post("/api/v1/uploads", content=halting())


def unfinished(engine: Engine) -> list[str]:
    open_states = ("queued", "running")
    with read(engine) as session:
        return [
            *session.scalars(select(Upload.id).where(Upload.state.in_(open_states))),
            *session.scalars(select(Estimate.id).where(Estimate.state.in_(open_states))),
        ]


def test_a_killed_server_keeps_every_upload_it_acknowledged(tmp_path: Path) -> None:
    data_dir, acknowledged, cut = tmp_path / "data", list[str](), threading.Event()
    half = dump(64, 64, run="half")
    with serving(data_dir) as server:
        engine = database(data_dir, QUICK)
        orphan = worker_of(engine).pid
        lanes = [threading.Thread(target=send, args=(server, lane, acknowledged)) for lane in range(3)]
        lanes.append(threading.Thread(target=send_half, args=(server, half, cut)))
        for lane in lanes:
            lane.start()
        wait_for(lambda: len(acknowledged) >= 12, "uploads are acknowledged")
        server.kill()
        server.ended()
        cut.set()
        for lane in lanes:
            lane.join()
        wait_for(partial(gone, orphan), "the orphaned worker leaves")

    with serving(data_dir) as server:
        worker = worker_of(engine)
        wait_for(lambda: not unfinished(engine), "every upload and estimate ends")
        with read(engine) as session:
            states = {row.id: row.state for row in session.execute(select(Upload.id, Upload.state))}
            batches = session.scalars(select(Batch.upload_id)).all()
            cut_off = session.scalars(select(Upload.id).where(Upload.bytes == len(half))).all()
        assert set(acknowledged) <= set(states), "nothing is lost"
        assert set(states.values()) == {"succeeded"}
        assert sorted(batches) == sorted(states), "nothing is double: one batch for each upload"
        assert cut_off == [], "half an upload is none"
        assert_nothing_partial(engine)
        server.kill(signal.SIGTERM)
        assert server.ended() == 0
        wait_for(partial(gone, worker.pid), "the worker leaves with its server")
    engine.dispose()
