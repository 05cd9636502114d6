"""The columns of a batch are read once for all its figures, and only of a batch that cannot change."""

import pytest
from sqlalchemy import Engine, event

from app.figures.kept import columns_of, estimate_columns
from storage import batches, estimates
from storage.database import read, write
from storage.models import Estimate
from tests.builders import make_batch, make_estimate
from tests.figures.batches import five
from tests.figures.test_figures import build


def test_two_figures_read_the_columns_once(sqlite_engine: Engine) -> None:
    batch = five(sqlite_engine)
    seen: list[str] = []
    event.listen(sqlite_engine, "before_cursor_execute", lambda *told: seen.append(told[2]))
    for name in ("group_rewards", "reward_histogram", "whitening_scopes"):
        build(sqlite_engine, batch, name)
    assert sum("reward_components" in statement and "rollout" in statement for statement in seen) == 1


def test_kept_columns_cannot_be_written_to(sqlite_engine: Engine) -> None:
    batch = five(sqlite_engine)
    with read(sqlite_engine) as session:
        columns = columns_of(session, batch)
        assert columns_of(session, batch) is columns
    with pytest.raises(ValueError, match="read-only"):
        columns.reward[0] = 2.0


def test_a_batch_that_is_being_written_is_read_as_it_is(sqlite_engine: Engine) -> None:
    made = make_batch(sqlite_engine, [[1.0]], ready=False)
    with read(sqlite_engine) as session:
        batch = batches.get_any(session, made.id)
        assert batch is not None and columns_of(session, batch) is not columns_of(session, batch)


def test_columns_of_an_estimate_are_kept_until_it_is_computed_anew(sqlite_engine: Engine) -> None:
    batch = five(sqlite_engine)
    estimate = make_estimate(sqlite_engine, batch.id, [0.5, -0.5])
    with read(sqlite_engine) as session:
        found = session.get_one(Estimate, estimate.id)
        columns = estimate_columns(session, found)
        assert columns["advantage"].tolist() == [0.5, -0.5]
        assert estimate_columns(session, found) is columns
    with pytest.raises(ValueError, match="read-only"):
        columns["advantage"][0] = 2.0
    with write(sqlite_engine) as session:
        estimates.put_rollouts(session, estimate.id, [0, 1], {"advantage": [1.0, -1.0]})
        session.get_one(Estimate, estimate.id).finished = (estimate.finished or 0.0) + 1
    with read(sqlite_engine) as session:
        again = estimate_columns(session, session.get_one(Estimate, estimate.id))
    assert again["advantage"].tolist() == [1.0, -1.0]


def test_an_estimate_that_is_not_finished_is_read_as_it_is(sqlite_engine: Engine) -> None:
    estimate = make_estimate(sqlite_engine, five(sqlite_engine).id, [0.5], state="running")
    with read(sqlite_engine) as session:
        found = session.get_one(Estimate, estimate.id)
        assert estimate_columns(session, found) is not estimate_columns(session, found)
