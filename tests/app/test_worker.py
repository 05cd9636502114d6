"""Workers that die, freeze and leave: their jobs go on elsewhere."""

import os
import subprocess
import sys
import time

import pytest
from dbos import error
from sqlalchemy import update
from structlog.testing import capture_logs

from app.devices import pick_device
from app.errors import BadRequest
from app.lifecycle import bury, release, request_cancel
from app.settings import Settings
from app.uploads import receipt
from app.worker import end_frozen_transactions, executor_name, here, reap
from app.workflows import HandedBack, perform
from storage import jobs as job_rows
from storage import workers
from storage.database import make_engine, read, write
from storage.models import Batch, Upload, Worker
from tests import databases
from tests.app.dumps import dump
from tests.app.test_storing import Engine, Killed, count
from tests.working import Place


def register(place: Place, executor: str, pid: int | None = None, seen: float | None = None) -> None:
    with write(place.engine) as session:
        workers.register(session, executor, "host", pid or os.getpid(), "cpu", ["ingest"])
        if seen is not None:
            session.execute(update(Worker).where(Worker.executor_id == executor).values(seen=seen))


def begun(place: Place, executor: str, live: int = 2) -> str:
    """An ingest that this worker has begun and left in the middle."""
    upload_id, _ = place.upload(dump())
    engine = Engine(place, live)
    with pytest.raises(Killed):
        perform(
            place.context(executor),
            "ingest",
            upload_id,
            0,
            engine.commit,
        )
    return upload_id


def upload_of(place: Place, upload_id: str) -> Upload:
    with read(place.engine) as session:
        found = session.get_one(Upload, upload_id)
        session.expunge(found)
        return found


def gone_pid() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_silent_worker_is_buried_and_its_job_waits_again(place: Place) -> None:
    register(place, "silent", seen=time.time() - place.settings.dead_after_seconds - 1)
    register(place, "lively")
    upload_id = begun(place, "silent")
    assert reap(place.engine, place.jobs, place.settings) == ["silent"]
    waiting = upload_of(place, upload_id)
    assert (waiting.state, waiting.executor, waiting.attempts) == ("queued", None, 1)
    assert reap(place.engine, place.jobs, place.settings) == [], "a burial is done once"


def test_a_worker_of_this_machine_that_is_gone_need_not_be_waited_for(place: Place) -> None:
    gone = executor_name()
    register(place, gone, pid=gone_pid())
    register(place, executor_name(), pid=os.getpid())
    register(place, f"host:{'0' * 8}:1:abcd", pid=gone_pid())
    assert reap(place.engine, place.jobs, place.settings) == [gone]


def test_a_worker_does_not_bury_itself(place: Place) -> None:
    register(place, "me", seen=0.0)
    assert reap(place.engine, place.jobs, place.settings, "me") == []


def test_names_are_unique_and_say_where_they_are(place: Place) -> None:
    assert executor_name() != executor_name()
    assert executor_name().split(":")[-3:-1] == [here(), str(os.getpid())]


def test_a_cancelled_job_of_a_dead_worker_ends_at_its_burial(place: Place) -> None:
    register(place, "dead")
    upload_id = begun(place, "dead")
    assert request_cancel(place.engine, place.jobs, "ingest", upload_id) == "running"
    bury(place.engine, place.jobs, "dead")
    assert upload_of(place, upload_id).state == "cancelled"
    assert count(place, Batch) == 0


def test_a_job_that_waits_again_can_be_cancelled_with_all_it_stored(place: Place) -> None:
    register(place, "dead")
    upload_id = begun(place, "dead")
    bury(place.engine, place.jobs, "dead")
    assert request_cancel(place.engine, place.jobs, "ingest", upload_id) == "cancelled"
    assert count(place, Batch) == 0


def test_a_worker_that_leaves_does_not_use_up_an_attempt(place: Place) -> None:
    register(place, "leaving")
    upload_id = begun(place, "leaving", live=1)
    assert upload_of(place, upload_id).attempts == 1
    release(place.engine, place.jobs, "leaving")
    waiting = upload_of(place, upload_id)
    assert (waiting.state, waiting.attempts) == ("queued", 0)
    with read(place.engine) as session:
        assert workers.unreaped(session) == []


def test_a_worker_that_lost_its_job_cannot_end_it(place: Place) -> None:
    """It was frozen, another one has begun the job, and now its own run fails."""
    upload_id, _ = place.upload(b"no row\n")
    frozen = place.context("frozen")

    def commit_late(work: object) -> None:
        with write(place.engine) as session:
            job_rows.begin_attempt(session, Upload, upload_id, "other")
        raise ValueError

    assert perform(frozen, "ingest", upload_id, 0, commit_late) == "superseded"
    assert upload_of(place, upload_id).state == "running"


def test_an_old_revision_is_not_begun(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    context = place.context("w")
    assert perform(context, "ingest", upload_id, 7, place.commit) == "nothing to do"
    assert perform(context, "ingest", "unknown", 0, place.commit) == "nothing to do"
    assert upload_of(place, upload_id).state == "queued"


def test_an_unforeseen_error_tells_no_secret(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    context = place.context("w")

    def broken(work: object) -> None:
        raise ValueError("the text of a rollout")

    with capture_logs() as logged:
        assert perform(context, "ingest", upload_id, 0, broken) == "failed"
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert "ValueError" in body["error"]
    assert upload_id in body["error"]
    assert "the text of a rollout" not in body["error"] + str(logged)
    assert " broken'" in str(logged), "the log says where"


def test_devices_are_named_or_refused() -> None:
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") in ("cpu", "cuda", "mps")
    for unknown in ("gpu", "cpu:1", "cuda:99", "cuda:x"):
        with pytest.raises(BadRequest, match="VANTAGE_DEVICE"):
            pick_device(unknown)


def test_a_job_whose_engine_leaves_is_not_called_failed(place: Place) -> None:
    upload_id, _ = place.upload(dump())
    context = place.context("leaving")

    def without_engine(work: object) -> None:
        context.leaving.set()
        raise RuntimeError("System database accessed before DBOS was launched")

    with pytest.raises(HandedBack):
        perform(context, "ingest", upload_id, 0, without_engine)
    assert upload_of(place, upload_id).state == "running", "it is handed back, not given up"


@pytest.mark.parametrize(("cancelled", "state"), [(True, "cancelled"), (False, "running")])
def test_a_job_that_is_cancelled_in_the_middle_of_a_step_ends(
    place: Place, cancelled: bool, state: str
) -> None:
    """The engine then says the same as when another worker has the job."""
    upload_id, _ = place.upload(dump())

    def taken_away(work: object) -> None:
        if cancelled:
            assert request_cancel(place.engine, place.jobs, "ingest", upload_id) == "running"
        raise error.DBOSWorkflowConflictIDError(upload_id)

    with pytest.raises(error.DBOSWorkflowConflictIDError):
        perform(place.context("w"), "ingest", upload_id, 0, taken_away)
    assert upload_of(place, upload_id).state == state


def test_a_frozen_workers_transactions_are_ended_by_the_database(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=90000")
    end_frozen_transactions(Settings(dead_after_seconds=30))
    with databases.postgres_copy(postgres_url) as url:
        engine = make_engine(url)
        with engine.connect() as connection:
            limits = [
                connection.exec_driver_sql(f"SHOW {name}").scalar_one()
                for name in ("idle_in_transaction_session_timeout", "statement_timeout")
            ]
        engine.dispose()
    assert limits == ["5min", "90s"]
