"""`vantage serve` on SQLite: killed in the middle of everything, and nothing is lost or done twice."""

import os
import signal
import threading
from collections.abc import Iterator
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
    serving,
    wait_for,
    worker_of,
)

pytestmark = pytest.mark.acceptance

ROLLOUTS, TOKENS = 160, 64


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def engine(data_dir: Path) -> Iterator[Engine]:
    data_dir.mkdir()
    engine = database(data_dir, QUICK)
    yield engine
    engine.dispose()


def post(server: Server, content: bytes, **query: Any) -> dict[str, Any]:
    with server.client as client:
        answer = client.post("/api/v1/uploads", params=query, content=content)
    assert answer.status_code in (200, 201, 202), answer.text
    body: dict[str, Any] = answer.json()
    return body


def wait_ingested(engine: Engine, upload_id: str) -> None:
    def over() -> bool:
        state = upload_state(engine, upload_id)[0]
        assert state not in ("failed", "cancelled")
        return state == "succeeded"

    wait_for(over, "the ingest succeeds")


def kill_worker_at(engine: Engine, progress: Any, kills: int) -> int:
    """Kill the living worker `kills` times, each time after `progress()` (state, number) has gone on."""
    done, killed = 0, 0
    while killed < kills:
        worker = worker_of(engine)

        def further(done: int = done) -> int:
            state, now, *_ = progress()
            return -1 if state == "succeeded" else now if state == "running" and now > done else 0

        done = wait_for(further, "the job goes on")
        if done < 0:
            break
        os.kill(worker.pid, signal.SIGKILL)
        killed += 1
    return killed


def test_a_killed_worker_loses_nothing(data_dir: Path, engine: Engine) -> None:
    with serving(data_dir) as server:
        upload_id = post(server, dump(ROLLOUTS, TOKENS))["id"]
        assert kill_worker_at(engine, lambda: upload_state(engine, upload_id), 2) == 2
        wait_ingested(engine, upload_id)
        with server.client as client:
            receipt = client.get(f"/api/v1/uploads/{upload_id}").json()
        (batch,) = receipt["batches"]
        assert receipt["counts"] == {"rows": ROLLOUTS, "accepted": ROLLOUTS, "rejected": 0}
        assert_whole(engine, batch["id"], ROLLOUTS, TOKENS)

        request = {"estimator": "gae", "params": {"lam": 0.9}, "whitening": {"scope": "batch"}}
        with server.client as client:
            made = client.post(f"/api/v1/batches/{batch['id']}/estimates", json=request)
        assert made.status_code in (201, 202), made.text
        estimate_id = made.json()["id"]
        assert kill_worker_at(engine, lambda: estimate_state(engine, estimate_id), 1) == 1
        wait_for(lambda: estimate_state(engine, estimate_id)[0] == "succeeded", "the estimate succeeds")
        assert_estimated(engine, estimate_id, ROLLOUTS)
        assert_nothing_partial(engine)
    checked = run_command(data_dir, QUICK, "check")
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_a_killed_server_keeps_every_upload_it_acknowledged(data_dir: Path, engine: Engine) -> None:
    acknowledged: list[str] = []
    with serving(data_dir) as server:
        stop = threading.Event()

        def send(lane: int) -> None:
            with server.client as client:
                for number in range(1000):
                    content = dump(8, 16, run=f"lane-{lane}", step=number)
                    try:
                        answer = client.post("/api/v1/uploads", content=content)
                    except httpx.TransportError:
                        return
                    if answer.status_code in (200, 201, 202):
                        acknowledged.append(answer.json()["id"])
                    if stop.is_set():
                        return

        lanes = [threading.Thread(target=send, args=(lane,)) for lane in range(3)]
        for lane in lanes:
            lane.start()
        wait_for(lambda: len(acknowledged) >= 12, "uploads are acknowledged")
        server.kill()
        server.ended()
        stop.set()
        for lane in lanes:
            lane.join()
    with serving(data_dir):
        wait_for(lambda: not unfinished(engine), "every upload and estimate ends")
        with read(engine) as session:
            states = dict(session.execute(select(Upload.id, Upload.state)).tuples().all())
            batches = session.scalars(select(Batch.upload_id)).all()
        assert set(acknowledged) <= set(states)
        assert set(states.values()) == {"succeeded"}
        assert sorted(batches) == sorted(states), "one batch for each upload"
        assert_nothing_partial(engine)


def unfinished(engine: Engine) -> list[str]:
    with read(engine) as session:
        return [
            *session.scalars(select(Upload.id).where(Upload.state.in_(("queued", "running")))),
            *session.scalars(select(Estimate.id).where(Estimate.state.in_(("queued", "running")))),
        ]


def test_an_upload_that_was_cut_off_leaves_no_trace(data_dir: Path, engine: Engine) -> None:
    content = dump(64, 64)

    def halting() -> Iterator[bytes]:
        yield content[: len(content) // 2]
        spooled = wait_for(lambda: list((data_dir / "spool").iterdir()), "the first half is spooled")
        assert spooled
        server.kill()
        server.ended()
        yield content[len(content) // 2 :]

    with serving(data_dir) as server, server.client as client, pytest.raises(httpx.TransportError):
        client.post("/api/v1/uploads", content=halting())
    with serving(data_dir) as server:
        upload_id = post(server, content)["id"]
        wait_ingested(engine, upload_id)
        with read(engine) as session:
            assert session.scalars(select(Upload.id)).all() == [upload_id]


def test_a_running_ingest_is_cancelled(data_dir: Path, engine: Engine) -> None:
    with serving(data_dir) as server:
        upload_id = post(server, dump(2000, TOKENS))["id"]
        wait_for(lambda: upload_state(engine, upload_id)[1] > 0, "the ingest is in the middle")
        with server.client as client:
            assert client.delete(f"/api/v1/uploads/{upload_id}").status_code in (200, 202, 204)
        wait_for(lambda: upload_state(engine, upload_id)[0] == "cancelled", "the ingest is cancelled", 15)
        assert_nothing_partial(engine)
        with server.client as client:
            assert client.get(f"/api/v1/uploads/{upload_id}").json()["batches"] == []
        after = post(server, dump(8, 16, run="after"))["id"]
        wait_ingested(engine, after)
        assert "Traceback" not in server.log.read_text()


def test_a_worker_that_is_asked_to_stop_hands_its_job_back(data_dir: Path, engine: Engine) -> None:
    with serving(data_dir) as server:
        upload_id = post(server, dump(ROLLOUTS, TOKENS))["id"]
        wait_for(lambda: upload_state(engine, upload_id)[1] > 0, "the ingest is in the middle")
        first = worker_of(engine)
        os.kill(first.pid, signal.SIGTERM)
        wait_for(lambda: worker_of(engine).pid != first.pid, "another worker is there")
        wait_ingested(engine, upload_id)
        with read(engine) as session:
            (batch_id,) = session.scalars(select(Batch.id)).all()
        assert_whole(engine, batch_id, ROLLOUTS, TOKENS)


def test_a_stopped_server_takes_its_worker_with_it(data_dir: Path, engine: Engine) -> None:
    with serving(data_dir) as server:
        worker = worker_of(engine)
        server.kill(signal.SIGTERM)
        assert server.ended() == 0
        wait_for(lambda: not Path(f"/proc/{worker.pid}").exists(), "the worker is gone", 5)
    with serving(data_dir) as server:
        worker = worker_of(engine)
        server.kill(signal.SIGKILL)
        server.ended()
        wait_for(lambda: not Path(f"/proc/{worker.pid}").exists(), "the orphan is gone", 15)


def test_two_servers_do_not_share_a_folder(data_dir: Path, engine: Engine) -> None:
    with serving(data_dir):
        second = run_command(data_dir, QUICK, "serve", "--port", "0")
        assert second.returncode == 2
        assert "Another `vantage serve` uses this data folder." in second.stderr
        assert "Traceback" not in second.stderr
        assert str(data_dir) not in second.stderr


def test_an_address_that_others_reach_has_to_be_asked_for(data_dir: Path) -> None:
    for kind in ("serve", "web"):
        refused = run_command(data_dir, QUICK, kind, "--host", "0.0.0.0", "--port", "0")
        assert refused.returncode == 2
        assert "no accounts" in refused.stderr
        assert "--insecure" in refused.stderr
    assert not data_dir.exists(), "nothing was begun"


def test_files_are_taken_in_from_the_command_line(data_dir: Path, tmp_path: Path, engine: Engine) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for step in (1, 2):
        (folder / f"{step}.jsonl").write_bytes(dump(8, 16, run="by-hand", step=step))
    alone = run_command(data_dir, QUICK, "ingest", str(folder))
    assert alone.returncode == 0, alone.stderr
    assert "16 rows, 16 accepted, 0 rejected" in alone.stdout
    assert not unfinished(engine), "the estimates are there too"
    with serving(data_dir):
        worker_of(engine)
        beside = run_command(data_dir, QUICK, "ingest", str(folder / "1.jsonl"), "--run", "other")
        assert beside.returncode == 0, beside.stderr
        assert "other step 1: 8 rollouts in 2 groups" in beside.stdout
    (folder / "bad.jsonl").write_bytes(b"nothing that could be a row")
    bad = run_command(data_dir, QUICK, "ingest", str(folder / "bad.jsonl"))
    assert bad.returncode == 1
    assert "failed" in bad.stdout
