"""Our rows and the job engine's records, in every combination: no job stays open that nobody will end."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from dbos import PortableWorkflowError
from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import OperationalError

from app.tasks import Work
from app.upkeep import Upkeep
from app.workflows import HandedBack, perform
from storage import jobs as job_rows
from storage import uploads, workers
from storage.database import read, write
from storage.models import Batch, Upload
from tests.app.dumps import dump
from tests.app.test_storing import Engine, Killed, count, small
from tests.working import Place

ME, OTHER, DEAD = "me", "other", "dead"
STATUSES = (None, "ENQUEUED", "PENDING", "SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
NOBODY_WILL = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", None)


@pytest.fixture
def upkeep(place: Place) -> Iterator[Upkeep]:
    with write(place.engine) as session:
        for name in (ME, OTHER):
            workers.register(session, name, "host", 1, "cpu", ["ingest"])
    yield Upkeep(place.engine, place.jobs, place.settings, ME)


def set_record(connection: Connection, id: str, status: str | None, executor: str | None = None) -> None:
    """Make the engine's record of the upload's job say so; None deletes it."""
    given = {"name": f"ingest:{id}:0", "status": status, "executor": executor}
    deleted = "DELETE FROM workflow_status WHERE workflow_uuid = :name"
    changed = (
        "UPDATE workflow_status SET status = :status, executor_id = :executor WHERE workflow_uuid = :name"
    )
    connection.execute(text(deleted if status is None else changed), given)


def say(place: Place, id: str, status: str | None, executor: str | None = None) -> None:
    with place.engine.begin() as connection:
        set_record(connection, id, status, executor)


def set_row(place: Place, upload_id: str, **columns: Any) -> None:
    with write(place.engine) as session:
        session.execute(update(Upload).where(Upload.id == upload_id).values(**columns))


def row_of(place: Place, upload_id: str) -> Upload:
    with read(place.engine) as session:
        found = session.get_one(Upload, upload_id)
        session.expunge(found)
        return found


def status_of(place: Place, row: Upload) -> str | None:
    name = f"ingest:{row.id}:{row.revision}"
    record = place.jobs.records([name]).get(name)
    return record.status if record else None


def test_every_open_job_ends_up_waiting_worked_on_or_ended(place: Place, upkeep: Upkeep) -> None:
    holders = ((None, False), (ME, False), (ME, True), (OTHER, False), (DEAD, False))
    combinations = list(product(("queued", "running"), (False, True), STATUSES, holders))
    ids = [f"upload-{number}" for number in range(len(combinations))]
    made = dict(zip(ids, combinations, strict=True))
    with write(place.engine) as session:
        for id, (state, cancel, _, (executor, performing)) in made.items():
            uploads.create(
                session, id=id, filename=id, bytes=1, sha256=id, files=[], request={}, state=state,
                cancel_requested=cancel, executor=executor,
            )  # fmt: skip
            place.jobs.enqueue(session, "ingest", id, 0)
            if performing:
                upkeep.performing.add(f"ingest:{id}:0")
    with place.engine.begin() as connection:
        for id, (_, _, status, (executor, _)) in made.items():
            set_record(connection, id, status, executor)
    for _ in range(4):
        upkeep.look()
    for id, (state, cancel, status, (executor, performing)) in made.items():
        row = row_of(place, id)
        worked_on = executor == OTHER or (executor == ME and performing)
        told = (state, cancel, status, executor, performing, row.state, row.revision)
        if worked_on and status in ("PENDING", "ENQUEUED", "CANCELLED"):
            assert (row.state, row.revision, status_of(place, row)) == (state, 0, status), told
        elif cancel:
            assert row.state == "cancelled", told
        else:
            assert (row.state, status_of(place, row)) == ("queued", "ENQUEUED"), told
            assert (row.revision == 1) == (status in NOBODY_WILL), told


def test_a_difference_counts_when_it_is_there_twice(place: Place, upkeep: Upkeep) -> None:
    upload_id, _ = place.upload(dump())
    say(place, upload_id, "PENDING", DEAD)
    assert upkeep.look() == []
    say(place, upload_id, "ENQUEUED")
    assert upkeep.look() == []
    say(place, upload_id, "PENDING", DEAD)
    assert upkeep.look() == []
    assert upkeep.look() == [f"ingest:{upload_id}:0"]


def test_a_record_without_an_open_job_is_run_to_its_end(place: Place, upkeep: Upkeep) -> None:
    """Else it would stand as running for ever: its worker's outcome found no room."""
    upload_id, _ = place.upload(dump())
    say(place, upload_id, "PENDING", ME)
    set_row(place, upload_id, state="succeeded")
    upkeep.look()
    upkeep.look()
    assert place.jobs.records([f"ingest:{upload_id}:0"])[f"ingest:{upload_id}:0"].status == "ENQUEUED"
    context = place.context()
    assert perform(context, "ingest", upload_id, 0, place.commit) == "nothing to do"


def broken(work: Work) -> Any:
    fault = Exception()
    fault.sqlstate = "57P01"  # type: ignore[attr-defined] # as the driver's own
    raise OperationalError("INSERT", {}, fault)


def test_a_fault_of_the_database_is_not_the_jobs(place: Place, upkeep: Upkeep) -> None:
    upload_id, _ = place.upload(dump())
    context = replace(place.context(ME), performing=upkeep.performing, faults=upkeep.faults)
    for _ in range(place.settings.max_attempts + 2):
        say(place, upload_id, "PENDING", ME)
        with pytest.raises(HandedBack):
            perform(context, "ingest", upload_id, 0, broken)
        assert row_of(place, upload_id).state == "running"
        upkeep.look()
        assert upkeep.look() == [f"ingest:{upload_id}:0"]
        row = row_of(place, upload_id)
        assert (row.state, row.stage, row.attempts) == ("queued", "queued after: database away", 0)
    assert perform(context, "ingest", upload_id, 0, place.commit) == "succeeded"


def test_a_fault_that_was_recorded_as_a_steps_result_is_not_met_for_ever(place: Place) -> None:
    def recorded(work: Work) -> Any:
        raise PortableWorkflowError("database or disk is full", "OperationalError")

    upload_id, _ = place.upload(dump())
    assert perform(place.context(), "ingest", upload_id, 0, recorded) == "queued"
    row = row_of(place, upload_id)
    assert (row.revision, status_of(place, row)) == (1, "ENQUEUED")
    assert perform(place.context(), "ingest", upload_id, 1, place.commit) == "succeeded"


def test_deaths_count_only_while_nothing_more_is_stored(place: Place) -> None:
    place = small(place)
    place = Place(place.settings.model_copy(update={"max_attempts": 2}), place.engine, place.jobs)
    upload_id, _ = place.upload(dump())
    engine, deaths, outcome = Engine(place, 0), 0, ""
    while outcome != "succeeded":
        engine.start(live=1)
        try:
            outcome = perform(place.context("w"), "ingest", upload_id, 0, engine.commit)
        except Killed:
            deaths += 1
    assert deaths > 4
    other, _ = place.upload(dump(note="other"))
    for _ in range(2):
        with pytest.raises(Killed):
            engine = Engine(place, 0)
            perform(place.context("w"), "ingest", other, 0, engine.commit)
    assert perform(place.context("w"), "ingest", other, 0, engine.commit) == "failed"


@pytest.mark.parametrize("status", ["ERROR", "SUCCESS", None])
def test_a_file_sent_again_is_not_answered_by_a_stuck_upload(place: Place, status: str | None) -> None:
    upload_id, _ = place.upload(dump())
    with write(place.engine) as session:
        job_rows.begin_attempt(session, Upload, upload_id, DEAD)
    say(place, upload_id, status)
    again, created = place.upload(dump())
    assert (again, created) == (upload_id, False)
    assert (row_of(place, upload_id).state, row_of(place, upload_id).revision) == ("queued", 1)
    place.work()
    with read(place.engine) as session:
        assert session.scalars(select(Batch.upload_id)).all() == [upload_id]
    assert count(place, Batch) == 1


def test_an_end_that_fails_each_time_is_an_end_at_last(place: Place, upkeep: Upkeep) -> None:
    upload_id, _ = place.upload(dump())
    set_row(place, upload_id, attempts=place.settings.max_attempts, state="running")
    say(place, upload_id, "ERROR", ME)
    upkeep.look()
    upkeep.look()
    row = row_of(place, upload_id)
    assert row.state == "failed"
    assert row.error is not None and "unforeseen" in row.error
