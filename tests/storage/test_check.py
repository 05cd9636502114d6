"""The check of a whole database."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, delete, select, update

from storage import estimates, rollouts
from storage.check import verify
from storage.database import read, write
from storage.models import Batch, EstimateRollout, PackedBatch, Prompt, Rollout, TokenArray
from tests.builders import make_batch, make_estimate

FIELDS: dict[str, list[Any]] = {"values": [[1.0], [2.0], [3.0]], "kl": [[0.5], None, [0.25]]}


def found(engine: Engine) -> list[str]:
    with read(engine) as session:
        return list(verify(session))


def test_nothing_is_said_of_a_sound_database(engine: Engine) -> None:
    assert found(engine) == []
    make_batch(engine, [[1, 0], [1]], arrays=FIELDS)
    make_batch(engine, [[1, 0], [1]], ready=False)
    assert found(engine) == []


@pytest.mark.parametrize("column", ["data", "lengths", "checksum"])
def test_a_damaged_array_is_named_with_batch_field_and_group(engine: Engine, column: str) -> None:
    make_batch(engine, [[1, 0], [1]], arrays=FIELDS)
    batch = make_batch(engine, [[1, 0], [1]], arrays=FIELDS)
    with write(engine) as session:
        row = session.get_one(TokenArray, (batch.id, "values", 1, 0))
        stored = getattr(row, column)
        setattr(row, column, stored ^ 1 if column == "checksum" else stored[:-1] + bytes([stored[-1] ^ 1]))
    assert found(engine) == [
        f"batch {batch.id}, field values, group 1, part 0: the checksum does not fit the stored bytes"
    ]


def test_every_damaged_array_is_named(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0], [1]], arrays=FIELDS)
    with write(engine) as session:
        session.execute(update(TokenArray).values(data=b""))
    said = found(engine)
    assert len(said) == 4
    assert [sentence.split(":")[0] for sentence in said] == [
        f"batch {batch.id}, field {field}, group {group}, part 0"
        for field in ("kl", "values")
        for group in (0, 1)
    ]


@pytest.mark.parametrize(
    ("model", "changed", "said"),
    [
        (Rollout, {"response": "another answer"}, "rollout {index}: a text is not what was written"),
        (Rollout, {"response": None}, "rollout {index}: a text is not what was written"),
        (Rollout, {"data_source": "x"}, "rollout {index}: a text is not what was written"),
        (Prompt, {"group_id": "x"}, "prompt group {index}: a text is not what was written"),
        (Rollout, {"reward": 0.25}, "the column reward of its rollouts is not what was written"),
        (Rollout, {"reward": None}, "the column reward of its rollouts is not what was written"),
        (EstimateRollout, {"advantage": 7.0}, "the column advantage of its rollouts is not what was written"),
    ],
)
def test_a_changed_text_or_number_is_noticed(
    engine: Engine, model: Any, changed: dict[str, Any], said: str
) -> None:
    columns: dict[str, Any] = {"response": ["a", "b", "c"], "data_source": ["m", None, "m\ud800"]}
    batch = make_batch(engine, [[1, 0], [1]], columns=columns)
    numbers = np.array([0.5, -0.5, np.inf])
    estimate = make_estimate(engine, batch.id, numbers.tolist())
    with write(engine) as session:
        light = rollouts.read_columns(session, batch.id)
        session.merge(PackedBatch(batch_id=batch.id, data=rollouts.pack(light)))
        stored = estimates.read_columns(session, estimate.id)
        index = stored.pop("index")
        estimates.pack(session, estimate.id, index, stored | {"advantage": numbers})
    assert found(engine) == []
    with write(engine) as session:
        row = session.execute(select(model).limit(1)).scalar_one()
        index = row.group_no if model is Prompt else row.index
        for name, value in changed.items():
            setattr(row, name, value)
    told = found(engine)
    assert any(said.format(index=index) in sentence for sentence in told), told


def test_a_batch_of_an_earlier_version_has_no_checksum_of_its_texts(engine: Engine) -> None:
    make_batch(engine, [[1, 0], [1]])
    with write(engine) as session:
        session.execute(update(Rollout).values(text_checksum=None, response="changed"))
    assert found(engine) == []


def test_a_missing_rollout_is_noticed(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0], [1]], arrays={"values": FIELDS["values"]})
    with write(engine) as session:
        session.execute(delete(Rollout).where(Rollout.batch_id == batch.id, Rollout.index == 2))
    assert found(engine) == [
        f"batch {batch.id}, field values, group 1, part 0: is for 1 rollouts, the part has 0",
        f"batch {batch.id}: has 2 rollouts in 2 groups, was stored with 3 in 2",
    ]


def test_counts_that_do_not_fit_are_noticed(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0], [1]])
    with write(engine) as session:
        session.execute(update(Batch).values(groups=3))
    assert found(engine) == [f"batch {batch.id}: has 3 rollouts in 2 groups, was stored with 3 in 3"]
