"""The queue, and waiting for what is in it."""

import asyncio
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from dbos import WorkflowStatusString
from sqlalchemy import text

from app.errors import NotFound
from app.jobs import BULK, INTERACTIVE, follow, prepare, wait_for
from app.settings import Settings
from app.shared_polls import SharedPolls
from storage.database import make_engine, schema_is_current, write
from tests.app.dumps import dump
from tests.working import Place


def test_waiting_ends_with_the_job_or_the_time(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    began = time.monotonic()
    assert wait_for(place.engine, "ingest", upload_id, 0.1) == "queued"
    assert 0.1 <= time.monotonic() - began < 5
    worker = threading.Thread(target=place.work)
    worker.start()
    assert wait_for(place.engine, "ingest", upload_id, 60) == "succeeded"
    worker.join()
    with pytest.raises(NotFound):
        wait_for(place.engine, "estimate", "nope", 60)


def test_a_job_is_followed_to_its_end(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    seen: list[dict[str, Any]] = []

    async def watch() -> None:
        async for body in follow(SharedPolls(threading.Event()), place.engine, "ingest", upload_id, 0.001):
            seen.append(body)
            if len(seen) == 1:
                worker.start()

    worker = threading.Thread(target=place.work)
    asyncio.run(watch())
    worker.join()
    assert (seen[0]["state"], seen[0]["done"]) == ("queued", 0)
    assert (seen[-1]["state"], seen[-1]["done"]) == ("succeeded", seen[-1]["total"])
    assert seen[-1]["rows"] == 24
    assert seen[-1]["rows_per_second"] > 0
    assert all(earlier["done"] <= later["done"] for earlier, later in pairwise(seen))


def test_a_queue_entry_goes_with_its_transaction(place: Place) -> None:
    with pytest.raises(ZeroDivisionError), write(place.engine) as session:
        place.jobs.enqueue(session, "ingest", "undone", 0)
        _ = 1 / 0
    with write(place.engine) as session:
        place.jobs.enqueue(session, "ingest", "done", 0, BULK)
        place.jobs.enqueue(session, "ingest", "done", 1, INTERACTIVE)
    found = place.jobs.client.list_workflows(load_input=True)
    assert {(w.workflow_id, w.status) for w in found} == {
        ("ingest:done:0", WorkflowStatusString.ENQUEUED.value),
        ("ingest:done:1", WorkflowStatusString.ENQUEUED.value),
    }
    with place.engine.connect() as connection:
        order = connection.execute(
            text("SELECT workflow_uuid FROM workflow_status ORDER BY priority")
        ).scalars()
        assert list(order) == ["ingest:done:1", "ingest:done:0"]


def test_old_records_of_the_engine_are_deleted(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    place.jobs.cancel("ingest", upload_id, 0)
    kept, _ = place.upload(dump(note="kept"))
    assert place.jobs.forget(time.time() - 3600) == 0
    assert place.jobs.forget(time.time() + 3600) == 1
    assert [w.workflow_id for w in place.jobs.client.list_workflows()] == [f"ingest:{kept}:0"]


def test_several_processes_may_prepare_at_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    failed: list[BaseException] = []

    def run() -> None:
        try:
            prepare(settings)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine = make_engine(settings.url)
    assert failed == []
    assert schema_is_current(engine, settings.url)
    engine.dispose()
