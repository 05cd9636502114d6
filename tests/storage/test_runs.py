"""Runs: found by name, listed by activity, and their steps."""

import pytest
from sqlalchemy import Engine

from storage import runs
from storage.database import read, write
from tests.builders import make_batch, make_run


def test_a_run_is_made_once_and_found_by_id_or_name(engine: Engine) -> None:
    first, again = make_run(engine, "exp 1 λ"), make_run(engine, " exp 1 λ ")
    assert first.id == again.id and again.name == "exp 1 λ"
    with read(engine) as session:
        for key in (first.id, "exp 1 λ"):
            found = runs.find(session, key)
            assert found is not None and found.id == first.id
        assert runs.find(session, "exp") is None
        assert runs.find(session, "\x00\ud800") is None


@pytest.mark.parametrize("name", ["", "  ", "x" * 256, "a\nb", "a\x00", "\ud800"])
def test_a_name_that_cannot_be_one_is_refused(sqlite_engine: Engine, name: str) -> None:
    with write(sqlite_engine) as session, pytest.raises(ValueError, match="1 to 255 printable characters"):
        runs.get_or_create(session, name)


def test_the_list_says_what_each_run_holds(engine: Engine) -> None:
    make_run(engine, "empty")
    make_batch(engine, [[1, 0]], run="a", step=5, lengths=[3, 4])
    make_batch(engine, [[1]], run="a", step=2, lengths=[1])
    make_batch(engine, [[1]], run="b", step=None)
    make_batch(engine, [[1]], run="a", step=9, ready=False)
    with read(engine) as session:
        page = runs.page(session)
    found = {row.name: row for row in page.items}
    assert ([row.name for row in page.items], page.total) == (["b", "a", "empty"], 3)
    a, empty = found["a"], found["empty"]
    assert (a.batches, a.rollouts, a.tokens, a.first_step, a.last_step) == (2, 3, 8, 2, 5)
    assert (empty.batches, empty.rollouts, empty.tokens, empty.first_step) == (0, 0, 0, None)
    assert empty.newest == empty.created
    assert found["b"].first_step is None


def test_steps_are_in_order_and_the_newest_of_each_is_marked(engine: Engine) -> None:
    old = make_batch(engine, step=2, split="train", statistics={"reward": 0.25})
    make_batch(engine, step=1, split="train")
    make_batch(engine, step=2, split="val")
    make_batch(engine, step=2, split="train")
    make_batch(engine, step=None, split=None)
    make_batch(engine, step=None, split=None)
    with read(engine) as session:
        steps = runs.steps(session, old.run_id)
        assert [(step.step, step.split, step.newest) for step in steps] == [
            (1, "train", True), (2, "train", False), (2, "train", True), (2, "val", True),
            (None, None, True), (None, None, True),
        ]  # fmt: skip
        assert (steps[1].batch_id, steps[1].statistics) == (old.id, {"reward": 0.25})
        assert [step.step for step in runs.steps(session, old.run_id, split="val")] == [2]
        assert runs.steps(session, "nothing") == []


def test_the_statistics_of_earlier_steps_are_those_of_the_newest_batch_of_each(engine: Engine) -> None:
    old = make_batch(engine, step=2, split="train", statistics={"reward": 2.0})
    make_batch(engine, step=1, split="train", statistics={"reward": 1.0})
    make_batch(engine, step=2, split="train", statistics={"reward": 2.5})
    make_batch(engine, step=3, split="train", statistics={"reward": 3.0})
    make_batch(engine, step=2, split="val", statistics={"reward": 9.0})
    make_batch(engine, step=1, split=None, statistics={"reward": 7.0})
    make_batch(engine, step=1, split="train", ready=False)
    with read(engine) as session:

        def before(split: str | None, step: int) -> list[float]:
            return [each["reward"] for each in runs.statistics_before(session, old.run_id, split, step)]

        assert before("train", 3) == [1.0, 2.5]
        assert before("train", 1) == []
        assert before(None, 5) == [7.0]
