"""A large step goes to the server in pieces, and only the rest of it again after either side was killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import transfers
from storage.database import read
from tests.acceptance.processes import database, serving, wait_for
from tests.client.conftest import Site
from tests.client.test_recorder import steps_of
from vantage_client import Client, Recorder, transfer

LARGE, PIECE = 1 << 20, 1 << 15


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LARGE", LARGE)
    monkeypatch.setattr(transfer, "PIECE", PIECE)


def large(step: int, tokens: int = 30_000) -> dict[str, Any]:
    """Eight rollouts with numbers that do not compress."""
    random = np.random.default_rng(step)
    return {
        "prompt": ["q"] * 8,
        "reward": random.normal(size=8),
        "response_ids": random.integers(5, 30_000, (8, tokens)),
        "response_mask": np.ones((8, tokens), dtype=np.uint8),
        "old_log_probs": -random.exponential(1.0, (8, tokens)),
    }


def test_a_large_step_is_there(site: Site) -> None:
    with site.recorder("large") as recorder:
        recorder.log(1, large(1))
        assert recorder.flush(read=True)
    assert steps_of(site.client, "large") == [(1, 8)]
    assert not [path for path in site.spool.rglob("*") if path.is_file()]


def test_a_killed_server_and_a_next_training_go_on_where_it_was(tmp_path: Path, free_port: int) -> None:
    url, served, spool = f"http://127.0.0.1:{free_port}", tmp_path / "served", tmp_path / "spool"

    def arrived() -> int:
        return sum(path.stat().st_size for path in (served / "spool").glob("*.0"))

    with serving(served, {}, port=free_port) as server:
        recorder = Recorder(url, "cut", spool=spool, compress=False)
        recorder.log(3, large(3))
        wait_for(lambda: arrived() >= 4 * PIECE, "pieces are on the disk")
        server.kill()
        server.ended()
        recorder.close(timeout=0)
    (step,) = spool.rglob("*.step")
    here, id = arrived(), transfer.note_of(step).read_text()
    assert 0 < here < step.stat().st_size

    with (
        serving(served, {}, port=free_port),
        Recorder(url, "cut", spool=spool, compress=False) as following,
    ):
        assert following.flush(read=True)
        assert steps_of(Client(url), "cut") == [(3, 8)]
    engine = database(served, {})
    with read(engine) as session:
        found = transfers.get(session, id)
        assert found is not None and found.upload_id is not None, (
            "the transfer that was begun became the upload"
        )
    engine.dispose()
    assert not [path for path in spool.rglob("*") if path.is_file()]


def test_a_transfer_that_the_server_gave_up_is_begun_anew(site: Site) -> None:
    with site.recorder("given-up") as recorder:
        recorder.close(timeout=0)
    quiet = Recorder("http://127.0.0.1:9", "given-up", spool=site.spool)
    quiet.log(1, large(1))
    quiet.close(timeout=0)
    (step,) = site.spool.rglob("*.step")
    kept = recorder.folder
    kept.mkdir(parents=True, exist_ok=True)
    moved = step.replace(kept / step.name)
    transfer.note_of(moved).write_text("0123456789abcdef")
    with site.recorder("given-up") as following:
        assert following.flush(read=True)
    assert steps_of(site.client, "given-up") == [(1, 8)]
