"""Jobs: every change of state compares and sets."""

import threading

import pytest
from sqlalchemy import Engine

from storage import jobs
from storage.database import read, write
from storage.models import Estimate, Upload
from tests.builders import make_analysis, make_batch, make_estimate, make_upload

ENDS = ("succeeded", "failed", "cancelled")


def job(engine: Engine, id: str) -> Upload:
    with read(engine) as session:
        return session.get_one(Upload, id)


def test_a_job_from_start_to_end(engine: Engine) -> None:
    id = make_upload(engine, state="queued", total=100).id
    with write(engine) as session:
        assert not jobs.progress(session, Upload, id, done=1)  # not running yet
        assert jobs.begin_attempt(session, Upload, id, "w1") == 1
        assert jobs.progress(session, Upload, id, done=40, stage="reading")
    row = job(engine, id)
    assert (row.state, row.stage, row.done, row.total, row.executor) == ("running", "reading", 40, 100, "w1")
    assert row.started is not None and row.finished is None
    with write(engine) as session:
        assert jobs.begin_attempt(session, Upload, id, "w2") == 2  # the first worker died
        assert jobs.finish(session, Upload, id, "succeeded", rows=7)
    row, started = job(engine, id), row.started
    assert (row.state, row.stage, row.rows, row.executor, row.attempts) == (
        "succeeded",
        "succeeded",
        7,
        "w2",
        2,
    )
    assert row.started == started and row.finished is not None and row.error is None


@pytest.mark.parametrize("state", ENDS)
def test_an_end_is_final(engine: Engine, state: str) -> None:
    id = make_upload(engine, state=state).id
    with write(engine) as session:
        assert jobs.begin_attempt(session, Upload, id, "w") == 0
        assert not jobs.progress(session, Upload, id, done=1)
        assert not jobs.request_cancel(session, Upload, id)
        for other in ENDS:
            assert not jobs.finish(session, Upload, id, other, "late")
    assert (job(engine, id).state, job(engine, id).error) == (state, None)


def test_a_queued_job_is_cancelled_at_once(engine: Engine) -> None:
    id = make_upload(engine, state="queued").id
    with write(engine) as session:
        assert jobs.request_cancel(session, Upload, id)
        assert jobs.begin_attempt(session, Upload, id, "w") == 0
    row = job(engine, id)
    assert (row.state, row.stage, row.cancel_requested) == ("cancelled", "cancelled", True)
    assert row.finished is not None


def test_a_running_job_is_asked_to_end(engine: Engine) -> None:
    id = make_upload(engine, state="queued").id
    with write(engine) as session:
        jobs.begin_attempt(session, Upload, id, "w")
        assert not jobs.is_cancelled(session, Upload, id)
        assert jobs.request_cancel(session, Upload, id)
        assert jobs.is_cancelled(session, Upload, id)
    assert job(engine, id).state == "running"
    with write(engine) as session:
        assert jobs.begin_attempt(session, Upload, id, "w2") == 0  # nobody takes it up again
        assert jobs.finish(session, Upload, id, "cancelled")
        assert jobs.is_cancelled(session, Upload, "gone")


def test_a_failed_job_may_run_again(engine: Engine) -> None:
    id = make_upload(engine, state="queued").id
    with write(engine) as session:
        jobs.begin_attempt(session, Upload, id, "w")
        assert jobs.requeue(session, Upload, id) is None
        assert jobs.finish(session, Upload, id, "failed", "no space left")
    assert job(engine, id).error == "no space left"
    with write(engine) as session:
        assert jobs.requeue(session, Upload, id) == 1
        assert jobs.requeue(session, Upload, id) is None
    row = job(engine, id)
    assert (row.state, row.attempts, row.error, row.finished, row.executor) == ("queued", 0, None, None, None)


def test_no_state_but_an_end_finishes(sqlite_engine: Engine) -> None:
    id = make_upload(sqlite_engine, state="running").id
    with write(sqlite_engine) as session, pytest.raises(ValueError, match="'running' is no end"):
        jobs.finish(session, Upload, id, "running")


def test_of_several_that_finish_one_wins(engine: Engine) -> None:
    id = make_upload(engine, state="running").id
    start, won = threading.Barrier(4), list[str]()

    def finisher(name: str) -> None:
        start.wait()
        with write(engine) as session:
            if jobs.finish(session, Upload, id, "failed", name):
                won.append(name)

    threads = [threading.Thread(target=finisher, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [job(engine, id).error]


def test_all_kinds_are_listed_newest_first(engine: Engine) -> None:
    batch = make_batch(engine)
    analysis = make_analysis(engine, batch.id, "sweep")
    estimate = make_estimate(engine, batch.id, [1.0, -1.0])
    plain = make_estimate(engine, batch.id, [1.0, -1.0], convention=None, estimator="gae", state="queued")
    upload = make_upload(engine, "last.jsonl", state="queued")
    with read(engine) as session:
        page = jobs.page(session, limit=3)
        rest = jobs.page(session, limit=3, cursor=page.next)
        waiting = jobs.page(session, states=("queued",))
        counts = jobs.counts(session)
    assert [(row.kind, row.id, row.title, row.batch_id, row.state) for row in page.items] == [
        ("ingest", upload.id, "last.jsonl", None, "queued"),
        ("estimate", plain.id, "gae", batch.id, "queued"),
        ("estimate", estimate.id, "grpo/verl", batch.id, "succeeded"),
    ]
    assert ([row.id for row in rest.items], rest.next, rest.total) == (
        [analysis.id, batch.upload_id], None, 5,
    )  # fmt: skip
    assert (rest.items[0].kind, rest.items[0].title, rest.items[0].batch_id) == (
        "analysis", "sweep", batch.id,
    )  # fmt: skip
    assert ([row.id for row in waiting.items], waiting.total) == ([upload.id, plain.id, analysis.id], 3)
    assert counts == {
        ("ingest", "succeeded"): 1, ("ingest", "queued"): 1, ("estimate", "succeeded"): 1,
        ("estimate", "queued"): 1, ("analysis", "queued"): 1,
    }  # fmt: skip
    assert page.items[2].attempts == 1 and page.items[2].executor == "test"


def test_the_same_functions_serve_estimates(engine: Engine) -> None:
    estimate = make_estimate(engine, make_batch(engine).id, [1.0, 0.0], state="queued")
    with write(engine) as session:
        assert jobs.begin_attempt(session, Estimate, estimate.id, "w") == 1
        assert jobs.progress(session, Estimate, estimate.id, done=1, total=2, stage="computing")
        assert jobs.finish(session, Estimate, estimate.id, "failed", "out of memory")
    with read(engine) as session:
        found = session.get_one(Estimate, estimate.id)
        assert (found.state, found.error, found.done, found.total) == ("failed", "out of memory", 1, 2)
