"""The body of an ingest: stored in chunks, resumable at each of them, visible at once."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from app import workflows
from app.tasks import Work
from app.uploads import cancel, receipt
from app.workflows import perform
from storage import arrays, batches, rollouts, uploads
from storage.check import verify
from storage.database import read, write
from storage.models import Batch, Prompt, Rollout, TokenArray
from tests.app.dumps import dump, jsonl
from tests.working import Place


def count(place: Place, model: type[Any]) -> int:
    with read(place.engine) as session:
        return int(session.scalar(select(func.count()).select_from(model)) or 0)


class Killed(BaseException):
    """The worker is gone: nothing of its own gets to run."""


@dataclass
class Engine:
    """Records steps as the job engine does, and kills the worker after `live` new ones."""

    place: Place
    live: int
    recorded: list[Any] = field(default_factory=list)
    position: int = 0

    def start(self, live: int) -> None:
        self.live, self.position = live, 0

    def commit(self, work: Work) -> Any:
        self.position += 1
        if self.position <= len(self.recorded):
            return self.recorded[self.position - 1]
        if self.live == 0:
            raise Killed
        self.live -= 1
        with write(self.place.engine) as session:
            result = work(session)
        self.recorded.append(result)
        return result


def small(place: Place) -> Place:
    """The same place with chunks so small that an ingest has many."""
    settings = place.settings.model_copy(
        update={"chunk_bytes": 3000, "buffer_bytes": 12_000, "max_attempts": 1000}
    )
    return Place(settings, place.engine, place.jobs)


def run(place: Place, engine: Engine, upload_id: str, live: int) -> str:
    engine.start(live)
    context = place.context("w")
    return perform(context, "ingest", upload_id, 0, engine.commit)


def contents(place: Place, batch_id: str) -> dict[int, Any]:
    """Everything that was recorded of a batch, by the row of the file."""
    with read(place.engine) as session:
        columns = rollouts.columns(session, batch_id)
        found: dict[int, Any] = {}
        for index in columns.index.tolist():
            row = rollouts.get(session, batch_id, index)
            assert row is not None
            stored = arrays.rollout_arrays(session, row)
            found[row.row] = (
                index, row.reward, row.response, {name: np.asarray(v).tolist() for name, v in stored.items()},
            )  # fmt: skip
    return found


def test_a_dump_is_stored_whole(place: Place) -> None:
    body = place.ingest(dump())
    (batch,) = body["batches"]
    assert body["counts"] == {"rows": 24, "accepted": 24, "rejected": 0}
    assert (batch["run"], batch["step"], batch["rollouts"], batch["groups"]) == ("r", 1, 24, 6)
    assert batch["tokens"] == 24 * 20
    stored = contents(place, batch["id"])
    assert stored[4][0] == 2, "row 4 of the file (the header is row 1) has index 2"
    assert stored[4][3]["response_ids"] == list(range(2, 22))
    assert stored[4][3]["values"] == [2 + t / 8 for t in range(20)]
    with read(place.engine) as session:
        row = batches.get(session, batch["id"])
        assert row is not None
        assert row.fields["values"] == "recorded"
        assert row.fields["returns"] == "absent"
        assert row.header["run"] == "r"
        assert row.statistics["rollouts"] == 24
        group = session.get_one(Prompt, (batch["id"], 0))
        assert (group.size, group.scored, group.prompt) == (4, 4, "prompt 0")
        assert list(verify(session)) == []


def test_a_resumed_ingest_stores_what_an_undisturbed_one_does(place: Place) -> None:
    place = small(place)
    expected = contents(place, place.ingest(dump(note="first"))["batches"][0]["id"])
    upload_id, _ = place.upload(dump(note="second"))
    engine, outcome, kills = Engine(place, 0), "", 0
    while outcome != "succeeded":
        try:
            outcome = run(place, engine, upload_id, live=1)
        except Killed:
            kills += 1
            with read(place.engine) as session:
                upload = uploads.get(session, upload_id)
                assert upload is not None
                assert upload.state == "running"
                assert receipt(session, upload_id)["batches"] == [], "nothing is visible yet"
    assert kills > 5, "the test must stop it in the middle"
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert contents(place, body["batches"][0]["id"]) == expected
    assert body["counts"] == {"rows": 24, "accepted": 24, "rejected": 0}


def test_each_kill_without_progress_counts_as_an_attempt(place: Place) -> None:
    limited = Place(
        place.settings.model_copy(update={"chunk_bytes": 3000, "max_attempts": 3}), place.engine, place.jobs
    )
    upload_id, _ = limited.upload(dump())
    engine = Engine(limited, 0)
    for live in (3, 0, 0):
        with pytest.raises(Killed):
            run(limited, engine, upload_id, live)
    assert run(limited, engine, upload_id, live=9) == "failed"
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    assert "died 3 times" in body["error"]
    assert count(place, Rollout) == count(place, TokenArray) == count(place, Batch) == 0


def test_steps_of_another_reading_are_not_taken_for_this_one(place: Place) -> None:
    place = small(place)
    upload_id, _ = place.upload(dump())
    engine = Engine(place, 0)
    with pytest.raises(Killed):
        run(place, engine, upload_id, live=4)
    engine.recorded[2] = "stored by another version"
    assert run(place, engine, upload_id, live=9) == "queued"
    assert place.queued() == [("ingest", upload_id, 1)]
    assert count(place, Rollout) == 0
    place.work()
    with read(place.engine) as session:
        assert receipt(session, upload_id)["batches"][0]["rollouts"] == 24


def test_a_cancelled_ingest_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = small(place)
    upload_id, _ = place.upload(dump())
    real = workflows.make_task

    def cancelling(*given: Any) -> Any:
        """The person presses cancel once the third chunk is in."""
        task, chunks = real(*given), 0

        def check() -> None:
            nonlocal chunks
            chunks += 1
            if chunks == 3:
                assert count(place, Rollout) > 0
                assert cancel(place.engine, place.jobs, upload_id) == "running"
            task.check()

        return replace(task, check=check)

    monkeypatch.setattr(workflows, "make_task", cancelling)
    assert run(place, Engine(place, 99), upload_id, live=99) == "cancelled"
    with read(place.engine) as session:
        assert receipt(session, upload_id)["state"] == "cancelled"
    assert count(place, Rollout) == count(place, Batch) == count(place, TokenArray) == 0


def test_a_file_without_a_readable_row_fails_with_its_problems(place: Place) -> None:
    body = place.ingest(b'{"response": 1\nnot json\n')
    assert body["state"] == "failed"
    assert body["batches"] == []
    assert body["error"]
    assert {problem["severity"] for problem in body["problems"]} >= {"error"}
    assert body["counts"]["accepted"] == 0


def test_bad_rows_are_listed_and_the_others_stand(place: Place) -> None:
    body = place.ingest(dump() + b"{broken\n" + jsonl({"reward": 1.0}))
    assert body["state"] == "succeeded"
    assert body["counts"] == {"rows": 26, "accepted": 24, "rejected": 2}
    assert {problem["row"] for problem in body["problems"] if problem["severity"] == "error"} == {26, 27}


def test_the_same_bytes_in_the_same_run_are_the_same_batch(place: Place) -> None:
    first = place.ingest(dump(), "a.jsonl")
    second = place.ingest(dump(), "b.jsonl")
    assert second["id"] != first["id"], "nobody named the run, so only the file's header shows the repeat"
    assert second["duplicate_of"] == first["id"]
    assert second["batches"] == first["batches"]
    assert second["counts"] == first["counts"]
    assert count(place, Batch) == 1


def test_hostile_names_are_refused_with_a_remedy(place: Place) -> None:
    body = place.ingest(dump(run="a\u202eb"))
    assert body["state"] == "failed"
    assert "run=NAME" in body["error"]
    assert [problem["message"] for problem in body["problems"]] == [body["error"]]
    body = place.ingest(jsonl({"response": "a", "reward": 1, "split": "x" * 65}))
    assert (body["state"], body["batches"]) == ("failed", [])
    assert "split=NAME" in body["error"]


def test_the_same_bytes_at_the_same_time_are_one_batch(place: Place) -> None:
    first, _ = place.upload(dump(), "a.jsonl")
    second, _ = place.upload(dump(), "b.jsonl")
    assert first != second
    engines = {first: Engine(place, 0), second: Engine(place, 0)}
    for upload_id, engine in engines.items():
        with pytest.raises(Killed):
            run(place, engine, upload_id, live=2)
    assert run(place, engines[second], second, live=9) == "succeeded"
    assert run(place, engines[first], first, live=9) == "succeeded"
    with read(place.engine) as session:
        made, adopted = receipt(session, second), receipt(session, first)
    assert adopted["duplicate_of"] == second
    assert adopted["batches"] == made["batches"]
    assert count(place, Batch) == 1


def test_a_check_that_kills_its_worker_costs_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does for which there is not enough memory: the last worker that tries does not look."""

    def killed(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr("app.storing.sum_up", killed)
    upload_id, _ = place.upload(dump())
    engine, limit = Engine(place, 0), place.settings.max_attempts
    for _ in range(limit - 1):
        with pytest.raises(Killed):
            run(place, engine, upload_id, live=100)
    assert run(place, engine, upload_id, live=100) == "succeeded"
    with read(place.engine) as session:
        body = receipt(session, upload_id)
    (batch,) = body["batches"]
    assert (body["counts"]["accepted"], batch["rollouts"]) == (24, 24)
    assert {each["check"] for each in batch["unchecked"]} == {"findings", "statistics"}
    assert len(contents(place, batch["id"])) == 24


def test_a_worker_that_dies_once_is_no_reason_not_to_look(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id, _ = place.upload(dump())
    engine = Engine(place, 0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("app.storing.sum_up", lambda *_: (_ for _ in ()).throw(Killed()))
        run(place, engine, upload_id, live=100)
    assert run(place, engine, upload_id, live=100) == "succeeded"
    with read(place.engine) as session:
        assert receipt(session, upload_id)["batches"][0]["unchecked"] == []
