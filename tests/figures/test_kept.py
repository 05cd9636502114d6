"""The columns of a batch are read once for all its figures, and only of a batch that cannot change."""

import pytest
from sqlalchemy import Engine, event

from app.figures.kept import columns_of
from storage import batches
from storage.database import read
from tests.builders import make_batch
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
