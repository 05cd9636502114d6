"""Uploads: their problems, and whether the same was here before."""

from typing import Any

import pytest
from sqlalchemy import Engine

from storage import batches, jobs, uploads
from storage.database import read, write
from storage.models import Upload
from tests.builders import make_batch, make_upload


def problem(number: int, **more: Any) -> dict[str, Any]:
    return {"severity": "warning", "code": f"code{number % 2}", "message": f"problem {number}", **more}


def same(engine: Engine, sha256: str, request: dict[str, Any]) -> str | None:
    with read(engine) as session:
        found = uploads.find_same(session, sha256, request)
        return found.id if found else None


def test_an_upload_comes_back_as_it_was_made(engine: Engine) -> None:
    made = make_upload(engine, "naïve \x00\ud800.jsonl", state="queued", request={"step": 3}, total=17)
    with write(engine) as session:
        uploads.revise(session, made.id, format="verl-jsonl", rows=16, accepted=15, rejected=1)
    with read(engine) as session:
        found = uploads.get(session, made.id)
        assert found is not None
        assert (found.filename, found.request, found.total) == ("naïve \x00\ud800.jsonl", {"step": 3}, 17)
        assert (found.format, found.rows, found.accepted, found.rejected) == ("verl-jsonl", 16, 15, 1)
        assert uploads.get(session, "nothing") is None
        assert [upload.id for upload in uploads.page(session).items] == [made.id]


def test_the_first_thousand_problems_are_stored_and_all_are_counted(engine: Engine) -> None:
    upload = make_upload(engine)
    with write(engine) as session:
        uploads.add_problems(session, upload.id, [])
        uploads.add_problems(session, upload.id, [problem(0, row=7, field="values", file="a.jsonl")])
        uploads.add_problems(session, upload.id, [problem(number) for number in range(1, 700)])
        uploads.add_problems(session, upload.id, [problem(number) for number in range(700, 1500)])
        uploads.add_problems(session, upload.id, [problem(1500)])
    with read(engine) as session:
        found = uploads.problems(session, upload.id, limit=5000)
        assert [p.message for p in found] == [f"problem {number}" for number in range(1000)]
        assert (found[0].row, found[0].field, found[0].file) == (7, "values", "a.jsonl")
        assert session.get_one(Upload, upload.id).problem_counts == {"code0": 751, "code1": 750}
        assert [p.seq for p in uploads.problems(session, upload.id, limit=2, after=10)] == [11, 12]
    with write(engine) as session:
        uploads.clear_problems(session, upload.id)
        uploads.add_problems(session, upload.id, [problem(9)])
    with read(engine) as session:
        assert [p.message for p in uploads.problems(session, upload.id)] == ["problem 9"]
        assert session.get_one(Upload, upload.id).problem_counts == {"code1": 1}


@pytest.mark.parametrize("state", ["queued", "running"])
def test_the_same_bytes_and_request_at_work_are_the_same(engine: Engine, state: str) -> None:
    upload = make_upload(engine, state=state, sha256="a" * 64, request={"run": "r", "step": 1})
    assert same(engine, "a" * 64, {"step": 1, "run": "r"}) == upload.id
    assert same(engine, "a" * 64, {"run": "r"}) is None
    assert same(engine, "b" * 64, {"run": "r", "step": 1}) is None


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_came_to_nothing_is_not_the_same(engine: Engine, state: str) -> None:
    make_upload(engine, state=state, sha256="a" * 64)
    assert same(engine, "a" * 64, {}) is None


def test_what_is_about_to_be_cancelled_is_not_the_same(engine: Engine) -> None:
    upload = make_upload(engine, state="running", sha256="a" * 64)
    with write(engine) as session:
        assert jobs.request_cancel(session, Upload, upload.id)
    assert same(engine, "a" * 64, {}) is None


def test_after_a_deletion_the_same_bytes_may_come_again(engine: Engine) -> None:
    upload = make_upload(engine, sha256="a" * 64)
    assert same(engine, "a" * 64, {}) is None  # succeeded, but no batch of it
    first = make_batch(engine, upload=upload, step=1)
    make_batch(engine, upload=upload, step=2)
    assert same(engine, "a" * 64, {}) == upload.id
    with write(engine) as session:
        batches.delete(session, first.id)
    assert same(engine, "a" * 64, {}) is None


def test_a_duplicate_points_to_the_original(engine: Engine) -> None:
    original = make_upload(engine, sha256="a" * 64)
    batch = make_batch(engine, upload=original)
    copy = make_upload(engine, sha256="a" * 64, duplicate_of=original.id)
    assert same(engine, "a" * 64, {}) == original.id
    with read(engine) as session:
        assert [b.id for b in uploads.batches_of(session, copy.id)] == [batch.id]


def test_duplicates_are_found_by_the_run_that_they_went_to(engine: Engine) -> None:
    upload = make_upload(engine, sha256="a" * 64, request={"run": "r"})
    make_batch(engine, upload=upload, run="r", step=1)
    with read(engine) as session:
        found = uploads.duplicate(session, "a" * 64, "r")
        assert found is not None and found.id == upload.id
        assert uploads.duplicate(session, "a" * 64, "other") is None
        assert uploads.duplicate(session, "b" * 64, "r") is None
    make_batch(engine, upload=upload, run="other", step=2)
    with read(engine) as session:
        assert uploads.duplicate(session, "a" * 64, "r") is None


def test_batches_of_an_upload_are_by_step(engine: Engine) -> None:
    upload = make_upload(engine)
    for step in (3, None, 1):
        make_batch(engine, upload=upload, step=step)
    with read(engine) as session:
        assert [batch.step for batch in uploads.batches_of(session, upload.id)] == [1, 3, None]
