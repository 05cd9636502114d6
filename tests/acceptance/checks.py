"""What must be true of a database after processes were killed: nothing lost, nothing double."""

import numpy as np
from sqlalchemy import Engine, func, select

from storage import arrays, estimates, rollouts
from storage.check import verify
from storage.database import read
from storage.models import Batch, Estimate, EstimateRollout, Prompt, Rollout, TokenArray, Upload
from tests.acceptance.dumps import GROUP_SIZE, reward_of, values_of


def upload_state(engine: Engine, upload_id: str) -> tuple[str, int, int]:
    """State, bytes done and attempts."""
    with read(engine) as session:
        row = session.execute(
            select(Upload.state, Upload.done, Upload.attempts).where(Upload.id == upload_id)
        ).one()
    return row.state, row.done, row.attempts


def estimate_state(engine: Engine, estimate_id: str) -> tuple[str, int]:
    with read(engine) as session:
        row = session.execute(select(Estimate.state, Estimate.done).where(Estimate.id == estimate_id)).one()
    return row.state, row.done


def assert_whole(engine: Engine, batch_id: str, count: int, tokens: int, checksums: bool = True) -> None:
    """The batch holds every rollout of `dump(count, tokens)` once, with its arrays, and nothing else.

    `checksums`: and all that is stored, of whatever batch, is as it was written.
    """
    with read(engine) as session:
        batch = session.get_one(Batch, batch_id)
        assert (batch.state, batch.rollouts, batch.groups) == ("ready", count, count // GROUP_SIZE)
        columns = rollouts.columns(session, batch_id)
        assert sorted(columns.index.tolist()) == list(range(count))
        order = columns.index
        np.testing.assert_array_equal(columns.reward, [reward_of(i) for i in order.tolist()])
        groups = count // GROUP_SIZE
        assert session.scalar(select(func.count()).where(Prompt.batch_id == batch_id)) == groups
        sizes = session.scalars(select(Prompt.size).where(Prompt.batch_id == batch_id)).all()
        assert set(sizes) == {GROUP_SIZE}
        stored = arrays.flat(session, batch_id, "values")
        assert stored is not None
        expected = np.concatenate([values_of(i, tokens) for i in order.tolist()])
        np.testing.assert_array_equal(stored[0], expected)
        assert not checksums or list(verify(session)) == []


def assert_estimated(engine: Engine, estimate_id: str, count: int) -> None:
    """The estimate has one row for every rollout and, per token, one value for every token."""
    with read(engine) as session:
        row = session.get_one(Estimate, estimate_id)
        assert (row.state, row.done) == ("succeeded", count)
        found = estimates.columns(session, estimate_id)
        assert found["index"].tolist() == list(range(count))
        assert np.isfinite(found["advantage"]).all()
        if row.per_token:
            tokens = arrays.flat(session, row.batch_id, estimates.field("advantages", estimate_id))
            assert tokens is not None
            assert (tokens[1] > 0).all()
            assert np.isfinite(tokens[0]).all()
            assert row.summary is not None
            np.testing.assert_allclose(tokens[0].mean(), row.summary["mean"], atol=1e-12)


def assert_nothing_partial(engine: Engine) -> None:
    """Every batch is ready, and no row or array belongs to anything that is not there."""
    with read(engine) as session:
        assert set(session.scalars(select(Batch.state).distinct())) <= {"ready"}
        ready = set(session.scalars(select(Batch.id)))
        for model in (Prompt, Rollout, TokenArray):
            assert set(session.scalars(select(model.batch_id).distinct())) <= ready
        known = set(session.scalars(select(Estimate.id)))
        assert set(session.scalars(select(EstimateRollout.estimate_id).distinct())) <= known
        fields = set(session.scalars(select(TokenArray.field).distinct()))
        assert {field.partition(":")[2] for field in fields if ":" in field} <= known
