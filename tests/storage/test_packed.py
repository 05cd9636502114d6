"""Columns kept as one are the columns of the rows, or are not used."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, update

from storage import batches, check, estimates, packed, rollouts
from storage.codec import Damaged
from storage.database import read, write
from storage.models import Batch, PackedBatch, PackedEstimate
from storage.rollouts import Columns
from tests.builders import make_batch, make_estimate


def same(one: Columns, other: Columns) -> None:
    for field in fields(Columns):
        a, b = getattr(one, field.name), getattr(other, field.name)
        pairs = [(a[key], b[key]) for key in (a | b)] if isinstance(a, dict) else [(a, b)]
        for left, right in pairs:
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right)


def packed_batch(engine: Engine) -> tuple[Batch, Columns]:
    """A ready batch with a little of everything, and its columns as the rows have them."""
    said: dict[str, list[Any]] = {
        "reward_components": [{"format": 1.0}, None, {"format": None, "answer": 0.5}],
        "truncated": [True, None, False],
        "rank": [0, None, -1],
        "rollout_id": ["a", None, "\0"],
        "reward_nonfinite": [None, None, "NaN"],
    }
    batch = make_batch(engine, [[1.0, 0.0], [None]], data_sources=["maths", None], columns=said, ready=False)
    with write(engine) as session:
        light = rollouts.read_columns(session, batch.id)
        assert batches.finish(session, batch.id, light=light)
    return batch, light


def test_bytes_give_back_every_kind_of_column() -> None:
    texts = np.empty(5, np.object_)
    texts[:] = ["a", None, "\ud800 half", "a", "\0"]
    flags = np.empty(5, np.object_)
    flags[:] = [True, None, False, None, True]
    columns = {
        "i": np.array([1, -(2**62), 3, 4, 5]),
        "f": np.array([0.1, np.nan, np.inf, -0.0, 1e-300]),
        "b": np.array([True, False, True, False, True]),
        "texts": texts,
        "flags": flags,
        "none": np.empty(0, np.float64),
    }
    back = packed.unpack(packed.pack(columns))
    assert back is not None and list(back) == list(columns)
    for name, column in columns.items():
        assert back[name].dtype == column.dtype
        assert back[name].flags.aligned and back[name].flags.writeable  # as torch wants them
        assert back[name].tobytes() == column.tobytes() or column.dtype == object
    assert back["texts"].tolist() == texts.tolist()
    assert back["flags"].tolist() == flags.tolist()


def test_a_batch_reads_the_same_from_its_rows_and_as_one(engine: Engine) -> None:
    batch, light = packed_batch(engine)
    with read(engine) as session:
        assert session.get(PackedBatch, batch.id) is not None
        same(rollouts.columns(session, batch.id), rollouts.read_columns(session, batch.id))
        same(rollouts.columns(session, batch.id), light)


def test_bytes_of_other_columns_are_not_used(engine: Engine) -> None:
    _, light = packed_batch(engine)
    old = packed.pack({"index": light.index})
    assert rollouts.unpacked(old) is None
    assert rollouts.unpacked(b"another layout") is None
    kept = rollouts.unpacked(rollouts.pack(replace(light, components={}, known={})))
    assert kept is not None and kept.components == {} and kept.known == {}


def test_damage_is_told_and_the_rows_stand(engine: Engine) -> None:
    batch, light = packed_batch(engine)
    blob = bytearray(rollouts.pack(light))
    blob[-6] ^= 0x40
    with pytest.raises(Damaged):
        packed.unpack(bytes(blob))
    with write(engine) as session:
        session.execute(update(PackedBatch).values(data=bytes(blob)))
    with read(engine) as session:
        same(rollouts.columns(session, batch.id), light)
        told = list(check.verify(session))
        assert len(told) == 1 and batch.id in told[0]


def test_an_estimate_reads_the_same_from_its_rows_and_as_one(engine: Engine) -> None:
    index = np.array([2, 0, 1])
    values = {name: np.array([3.5, np.nan, -1.0]) + i for i, name in enumerate(estimates.COLUMNS)}
    estimate = make_estimate(engine, make_batch(engine, [[1.0, 0.0, 0.5]]).id, [0.0, 0.0, 0.0])
    with write(engine) as session:
        estimates.put_rollouts(session, estimate.id, index, values)
        estimates.pack(session, estimate.id, index, values)
    with read(engine) as session:
        one, rows = estimates.columns(session, estimate.id), estimates.read_columns(session, estimate.id)
        assert one["index"].tolist() == [0, 1, 2]
        for name in ("index", *estimates.COLUMNS):
            np.testing.assert_array_equal(one[name], rows[name])
    with write(engine) as session:
        estimates.clear(session, estimate.id)
        assert session.get(PackedEstimate, estimate.id) is None
