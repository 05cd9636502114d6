"""From bytes to an accepted upload."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.errors import BadRequest, NotFound, TooLarge
from app.uploads import (
    ORPHAN_SECONDS,
    Options,
    Spooled,
    accept,
    cancel,
    clean_name,
    default_run,
    joint_digest,
    receipt,
    spool,
    sweep,
)
from storage.database import read
from tests.working import Place

ROW = b'{"group_id": "a", "prompt": "p", "response": "r", "reward": 1.0, "step": 3}\n'


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def broken_off() -> AsyncIterator[bytes]:
    yield b"half of it"
    raise ConnectionResetError


def spool_files(place: Place) -> list[str]:
    return sorted(path.name for path in place.settings.spool_dir.iterdir())


def test_a_file_is_spooled_as_it_was_sent(place: Place) -> None:
    spooled = asyncio.run(spool(sent(b"ab", b"", b"c"), "x.jsonl", place.settings, "GZIP"))
    assert (place.settings.spool_dir / spooled.spool).read_bytes() == b"abc"
    assert spooled.bytes == 3
    assert spooled.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert spooled.encoding == "gzip"


def test_an_upload_that_breaks_off_leaves_no_file(place: Place) -> None:
    with pytest.raises(ConnectionResetError):
        asyncio.run(spool(broken_off(), "x", place.settings))
    assert spool_files(place) == []


def test_the_size_limit_counts_the_files_before(place: Place) -> None:
    settings = place.settings.model_copy(update={"max_upload_bytes": 10})
    asyncio.run(spool(sent(b"12345"), "x", settings, already=5))
    with pytest.raises(TooLarge, match="VANTAGE_MAX_UPLOAD_BYTES"):
        asyncio.run(spool(sent(b"123456"), "x", settings, already=5))
    assert len(spool_files(place)) == 1


def test_an_unknown_encoding_is_refused_before_anything_is_written(place: Place) -> None:
    with pytest.raises(BadRequest, match="use gzip or zstd"):
        asyncio.run(spool(sent(b"x"), "x", place.settings, "br"))
    assert spool_files(place) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("C:\\dumps\\step 1.jsonl", "dumps/step 1.jsonl"),
        ("../../etc/passwd", "etc/passwd"),
        ("/a//./b.jsonl", "a/b.jsonl"),
        ("a\x00b\n\u202ec.jsonl", "abc.jsonl"),
        ("..", "upload"),
        ("", "upload"),
        ("x" * 300, "x" * 255),
    ],
)
def test_names_are_shown_without_tricks(given: str, shown: str) -> None:
    assert clean_name(given) == shown


def test_success_means_row_and_job(place: Place) -> None:
    upload_id, created = place.upload(ROW)
    assert created
    assert place.queued() == [("ingest", upload_id, 0)]
    workflow = place.jobs.client.retrieve_workflow(f"ingest:{upload_id}:0").get_status()
    assert workflow.status == "ENQUEUED"


def test_a_refused_upload_leaves_neither_row_nor_job(place: Place) -> None:
    with pytest.raises(BadRequest, match="stride"):
        place.upload(ROW, group_by="stride:0")
    assert place.queued() == []


def test_the_same_bytes_are_the_same_upload(place: Place) -> None:
    first, _ = place.upload(ROW, run="r")
    again, created = place.upload(ROW, "another-name.jsonl", run="r")
    assert (again, created) == (first, False)
    assert len(spool_files(place)) == 1, "the second copy is not kept"
    place.work()
    assert place.upload(ROW, run="r") == (first, False)
    assert place.upload(ROW, run="other")[1]
    assert place.upload(ROW, run="r", step=4)[1]


def test_a_failed_upload_may_be_tried_again(place: Place) -> None:
    first = place.ingest(b"no row at all\n")
    assert first["state"] == "failed"
    again, created = place.upload(b"no row at all\n")
    assert created
    assert again != first["id"]


def test_several_files_are_one_upload(place: Place) -> None:
    files = [
        asyncio.run(spool(sent(ROW), "dump/1.jsonl", place.settings)),
        asyncio.run(spool(sent(ROW.replace(b"3", b"4")), "dump/2.jsonl", place.settings)),
    ]
    upload_id, _ = accept(place.engine, place.jobs, place.settings, files, Options())
    place.work()
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert body["filename"] == "dump/1.jsonl and 1 more"
    assert [(batch["run"], batch["step"]) for batch in body["batches"]] == [("dump", 3), ("dump", 4)]
    assert body["counts"] == {"rows": 2, "accepted": 2, "rejected": 0}


def test_order_and_names_of_files_count() -> None:
    a, b = Spooled("a", 1, "1" * 64, "x"), Spooled("b", 1, "2" * 64, "y")
    assert joint_digest([a]) == a.sha256
    assert joint_digest([a, b]) != joint_digest([b, a])


def test_the_run_is_named_after_folder_or_file() -> None:
    def named(*names: str) -> str:
        return default_run([Spooled(name, 1, "0" * 64, "x") for name in names])

    assert named("run-7/1.jsonl", "run-7/2.jsonl") == "run-7"
    assert named("a/b/rollouts.jsonl.gz") == "rollouts"
    assert named(".hidden") == ".hidden"


def test_no_file_is_refused(place: Place) -> None:
    with pytest.raises(BadRequest, match="No file"):
        accept(place.engine, place.jobs, place.settings, [], Options())


def test_a_queued_upload_is_cancelled_at_once(place: Place) -> None:
    upload_id, _ = place.upload(ROW)
    assert cancel(place.engine, place.jobs, upload_id) == "cancelled"
    assert place.work() == 0
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert (body["state"], body["batches"]) == ("cancelled", [])
    assert cancel(place.engine, place.jobs, upload_id) == "cancelled"


def test_a_finished_upload_stays_as_it_is(place: Place) -> None:
    body = place.ingest(ROW)
    assert cancel(place.engine, place.jobs, body["id"]) == "succeeded"


def test_an_unknown_upload_is_said_to_be_unknown(place: Place) -> None:
    with read(place.engine) as session, pytest.raises(NotFound, match="nope"):
        receipt(session, "nope")
    with pytest.raises(NotFound):
        cancel(place.engine, place.jobs, "nope")


def test_old_files_and_orphans_are_swept(place: Place) -> None:
    body = place.ingest(ROW)
    waiting, _ = place.upload(ROW.replace(b"3", b"5"))
    finished = body["progress"]["elapsed_seconds"]
    assert finished is not None
    fresh, stale = (place.settings.spool_dir / name for name in ("fresh", "stale"))
    fresh.write_bytes(b"being written")
    stale.write_bytes(b"left behind")
    os.utime(stale, (0, 0))
    assert sweep(place.engine, place.settings) == 1
    assert not stale.exists()
    later = body["created"] + place.settings.spool_days * 86400 + ORPHAN_SECONDS
    os.utime(fresh, (later, later))
    assert sweep(place.engine, place.settings, now=later) == 1, "the file that was read goes"
    assert fresh.exists()
    place.work()
    with read(place.engine) as session:
        assert receipt(session, waiting)["state"] == "succeeded", "the file of a waiting upload stays"


def test_a_worker_without_the_file_says_so(place: Place) -> None:
    upload_id, _ = place.upload(ROW)
    for path in place.settings.spool_dir.iterdir():
        Path(path).unlink()
    place.work()
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert body["state"] == "failed"
    assert "VANTAGE_DATA_DIR" in body["error"]
