"""The recorder against a real server: what arrives, what happens while it is away, and what never happens."""

import logging
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acceptance.processes import serving, wait_for
from tests.client.conftest import Site
from tests.client.rollouts import columns, lengths, ragged
from vantage_client import Client, Recorder

FROM_A_PROCESS = """
import sys, time
from tests.client.rollouts import columns
from vantage_client import Recorder
recorder = Recorder(sys.argv[1], "killed", spool=sys.argv[2])
for step in range(3):
    recorder.log(step, columns(step))
while len(list(recorder.folder.glob("*.step"))) < 3:
    time.sleep(0.01)
print("on disk", flush=True)
sys.stdin.read()
"""


def steps_of(client: Client, run: str) -> list[tuple[int, int]]:
    """(step, rollouts) of every batch of the run."""
    found = client.steps(run)
    return list(zip(found["step"].tolist(), found["rollouts"].tolist(), strict=True))


def test_what_was_logged_is_there(site: Site) -> None:
    with site.recorder("whole", header={"adv_estimator": "grpo", "gamma": 1.0}) as recorder:
        recorder.log(1, columns(1))
        recorder.log(2, ragged(2), split="val")
        recorder.log(3, response=["a", "b"], reward=[0.0, 1.0], prompt="the same")
        assert recorder.flush(read=True)
    stats = recorder.stats
    assert (stats.logged, stats.sent, stats.waiting, stats.dropped, stats.refused) == (3, 3, 0, 0, 0)
    assert steps_of(site.client, "whole") == [(1, 8), (2, 8), (3, 2)]
    steps = site.client.steps("whole")
    assert steps["split"] == [None, "val", None]
    batch = site.client.json(f"/batches/{steps['batch'][0]}")
    assert batch["fields"]["old_log_probs"] == "recorded"
    rollout = site.client.rollout(steps["batch"][0], 2)
    assert rollout["response_ids"].tolist() == columns(1)["response_ids"][2, : lengths(8)[2]].tolist()
    assert not list(site.spool.rglob("*.step"))


def test_the_server_may_be_killed_and_come_back(tmp_path: Path, free_port: int) -> None:
    """Steps logged before, while it is down and after are there exactly once each."""
    url = f"http://127.0.0.1:{free_port}"
    with Recorder(url, "again", spool=tmp_path / "spool") as recorder:
        with serving(tmp_path / "data", {}, port=free_port) as server:
            recorder.log(0, columns(0))
            assert recorder.flush()
            recorder.log(1, columns(1, 64))
            server.kill()
            server.ended()
        recorder.log(2, columns(2))
        assert not recorder.flush(timeout=0.2)
        with serving(tmp_path / "data", {}, port=free_port):
            recorder.log(3, columns(3))
            assert recorder.flush(read=True)
            assert steps_of(Client(url), "again") == [(0, 8), (1, 64), (2, 8), (3, 8)]
    assert recorder.stats.dropped == 0


def test_a_killed_training_leaves_its_steps_to_the_next(tmp_path: Path, free_port: int) -> None:
    url, spool = f"http://127.0.0.1:{free_port}", tmp_path / "spool"
    arguments = [sys.executable, "-c", FROM_A_PROCESS, url, str(spool)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        assert training.stdout.readline() == "on disk\n"
        training.send_signal(signal.SIGKILL)
    with serving(tmp_path / "data", {}, port=free_port), Recorder(url, "killed", spool=spool) as recorder:
        assert recorder.flush(read=True)
        assert steps_of(Client(url), "killed") == [(0, 8), (1, 8), (2, 8)]


def test_an_answer_that_was_lost_makes_no_second_batch(site: Site) -> None:
    """The server committed the step, the client never heard of it and sends it again."""
    with site.recorder("twice", compress=False) as recorder:
        recorder.log(5, columns(5))
        kept: list[tuple[Path, bytes]] = []

        def on_disk() -> bool:
            kept.extend((path, path.read_bytes()) for path in site.spool.rglob("*.step"))
            return bool(kept) or recorder.stats.sent == 1

        wait_for(on_disk, "the step is on disk")
        assert recorder.flush(read=True)
        if kept:
            kept[0][0].write_bytes(kept[0][1])
            assert recorder.flush(read=True)
            assert recorder.stats.sent == 2
    assert steps_of(site.client, "twice") == [(5, 8)]


def test_bad_rollouts_do_not_stop_the_training(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with site.recorder("bad") as recorder, caplog.at_level(logging.WARNING, "vantage_client"):
        recorder.log(1, 17)
        recorder.log(2, {"response": ["a"], "reward": [1.0, 2.0]})
        recorder.log("three", columns(3))  # type: ignore[arg-type] # wrong on purpose
        recorder.log(4, [{"reward": 1.0}, {"response": "fine", "reward": 0.0}])
        recorder.log(5, [{"reward": 1.0}])
        assert recorder.flush(read=True)
    assert recorder.stats.dropped == 3
    assert steps_of(site.client, "bad") == [(4, 1)]
    said = "\n".join(caplog.messages)
    assert "reward has 2 entries but response has 1" in said
    assert "of step 4 the server took 1 of 2 rollouts" in said
    assert "of step 5 the server took 0 of 1 rollouts" in said


def test_a_full_queue_goes_to_disk_and_a_full_disk_is_counted(
    tmp_path: Path, free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{free_port}"
    recorder = Recorder(url, "full", spool=tmp_path, queue_bytes=1, spool_bytes=20_000)
    with caplog.at_level(logging.WARNING, "vantage_client"):
        for step in range(60):
            recorder.log(step, columns(step))
        recorder.close(timeout=0)
    stats = recorder.stats
    assert stats.waiting + stats.dropped == stats.logged == 60
    assert stats.waiting and stats.dropped
    said = "\n".join(caplog.messages)
    assert "does not answer" in said
    assert "the queue is full" in said
    assert "(16 so far)" in said, "not every one of them is said"
    assert f"{stats.waiting} steps wait in" in said
    recorder.log(99, columns(1))
    assert recorder.stats.dropped == stats.dropped + 1, "a closed recorder takes nothing, and says so"


def test_the_token_is_sent_and_a_refused_step_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"title": "no", "detail": "Too large for this server."}'
            self.send_response(413)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with caplog.at_level(logging.WARNING, "vantage_client"):
            url = f"http://127.0.0.1:{server.server_port}"
            with Recorder(url, "refused", "secret", spool=tmp_path) as recorder:
                recorder.log(1, columns(1))
                assert recorder.flush()
        server.shutdown()
    assert seen == ["Bearer secret"]
    assert recorder.stats.refused == 1
    assert "Too large for this server." in "\n".join(caplog.messages)
    assert len(list(tmp_path.rglob("refused/*.step"))) == 1


def test_a_forked_process_has_no_recorder(site: Site) -> None:
    recorder = site.recorder("forked")
    child = os.fork()
    if not child:  # no assertion can be seen from here: the exit code says it
        recorder.log(1, columns(1))
        recorder.close()
        os._exit(0 if recorder.stats.logged == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    recorder.log(2, columns(2))
    recorder.close()
    assert recorder.stats.sent == 1


def test_an_address_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        Recorder("localhost:8000", "r", spool=tmp_path)
