"""Token arrays in the database: read back whole, by group and by rollout; damage is named."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, select, update

from storage import arrays, batches, rollouts, runs
from storage.arrays import MISSING, Corrupt
from storage.database import AnySession, read, write
from storage.models import Rollout, TokenArray
from tests.builders import make_batch, make_upload

VALUES = [[0.5, float(MISSING), -0.0], None, [], [float("nan"), float("inf")], [0.1]]
TEXTS = [["He", "llo", ""], None, [], ["\ud83d", "\ude00 é"], ["\x00"]]
REWARDS: list[list[float | None]] = [[1, 0], [0.5, None, 0]]


def rollout(session: AnySession, batch_id: str, index: int) -> Rollout:
    found = rollouts.get(session, batch_id, index)
    assert found is not None
    return found


def lists(values: list[Any]) -> list[list[Any] | None]:
    return [None if value is None else value.tolist() for value in values]


def damage(engine: Engine, batch_id: str, field: str, group_no: int, column: str = "data") -> None:
    """Flip one bit of a stored array."""
    with write(engine) as session:
        row = session.get_one(TokenArray, (batch_id, field, group_no, 0))
        raw = bytearray(getattr(row, column))
        raw[-1] ^= 1
        setattr(row, column, bytes(raw))


def test_flat_is_in_storage_order_with_a_length_for_every_rollout(engine: Engine) -> None:
    batch = make_batch(engine, REWARDS, arrays={"values": VALUES})
    with read(engine) as session:
        found = arrays.flat(session, batch.id, "values")
    assert found is not None
    values, lengths = found
    assert lengths.tolist() == [3, -1, 0, 2, 1]
    expected = np.array([0.5, MISSING, -0.0, np.nan, np.inf, 0.1])
    np.testing.assert_array_equal(values.view(np.uint64), expected.view(np.uint64))


def test_flat_marks_the_parts_that_lack_the_field(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0], [1], [0, 0]], arrays={"kl": [None, None, [0.25], None, None]})
    with read(engine) as session:
        found = arrays.flat(session, batch.id, "kl")
        assert found is not None
        assert found[0].tolist() == [0.25]
        assert found[1].tolist() == [-1, -1, 1, -1, -1]
        assert [(group, part) for group, part, _ in arrays.iterate(session, batch.id, "kl")] == [(1, 0)]


def test_a_field_that_nobody_has_is_none(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], arrays={"values": [[1.0], [2.0]], "kl": [None, None]})
    with read(engine) as session:
        assert arrays.flat(session, batch.id, "kl") is None
        assert arrays.fields(session, batch.id) == ["values"]
        assert list(arrays.iterate(session, batch.id, "kl")) == []


def test_iterate_gives_the_slots_of_each_part(engine: Engine) -> None:
    ids = [[1, 2], [70_000], [], None, [2**40]]
    batch = make_batch(engine, REWARDS, arrays={"response_ids": ids})
    with read(engine) as session:
        found = [(g, p, lists(v)) for g, p, v in arrays.iterate(session, batch.id, "response_ids")]
        one = [(g, p, lists(v)) for g, p, v in arrays.iterate(session, batch.id, "response_ids", group_no=1)]
    assert found == [(0, 0, [[1, 2], [70_000]]), (1, 0, [[], None, [2**40]])]
    assert one == found[1:]


def test_a_rollout_has_its_own_arrays_and_texts(engine: Engine) -> None:
    batch = make_batch(engine, REWARDS, arrays={"values": VALUES, "response_tokens": TEXTS})
    with read(engine) as session:
        assert arrays.fields(session, batch.id) == ["response_tokens", "values"]
        for index, (texts, values) in enumerate(zip(TEXTS, VALUES, strict=True)):
            found = arrays.rollout_arrays(session, rollout(session, batch.id, index))
            assert found.get("response_tokens") == texts
            assert set(found) == ({"values", "response_tokens"} if texts is not None else set())
            if values is not None:
                np.testing.assert_array_equal(found["values"], values)
        only = arrays.rollout_arrays(session, rollout(session, batch.id, 0), ["response_tokens"])
        assert only == {"response_tokens": TEXTS[0]}


def test_an_estimate_s_arrays_come_only_by_name(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], arrays={"values": [[1.0], [2.0]]})
    with write(engine) as session:
        arrays.put(session, batch.id, "advantages:e1", 0, 0, [np.array([0.25]), np.array([-0.25])])
    with read(engine) as session:
        first = rollout(session, batch.id, 0)
        assert set(arrays.rollout_arrays(session, first)) == {"values"}
        assert arrays.rollout_arrays(session, first, ["advantages:e1"])["advantages:e1"] == [0.25]
        assert arrays.fields(session, batch.id) == ["advantages:e1", "values"]
    with write(engine) as session:
        arrays.delete(session, batch.id, "advantages:e1")
        assert arrays.fields(session, batch.id) == ["values"]


def test_putting_again_replaces(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], arrays={"values": [[1.0], [2.0]]})
    with write(engine) as session:
        arrays.put(session, batch.id, "values", 0, 0, [np.array([0.1, 0.2]), None])
    with read(engine) as session:
        found = arrays.flat(session, batch.id, "values")
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == ([0.1, 0.2], [2, -1])


def test_a_group_in_two_parts_is_read_in_order(engine: Engine) -> None:
    upload = make_upload(engine)
    with write(engine) as session:
        run = runs.get_or_create(session, "parts")
        batch = batches.begin(session, run_id=run.id, upload_id=upload.id, format="jsonl")
        for part in range(2):
            prompt = {"group_id": "g", "prompt": "p"} if part == 0 else None
            rows = [{"index": 2 * part + i, "row": 1, "digest": "d"} for i in range(2)]
            values = [np.array([float(part)]), np.array([part + 0.5])]
            batches.add_part(session, batch.id, 0, part, prompt, rows, {"values": values})
        batches.finish(session, batch.id)
    with read(engine) as session:
        found = arrays.flat(session, batch.id, "values")
        assert found is not None and found[0].tolist() == [0.0, 0.5, 1.0, 1.5]
        third = arrays.rollout_arrays(session, rollout(session, batch.id, 2))
        assert third["values"] == [1.0]


def test_one_rollout_decodes_only_the_blobs_of_its_part(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, REWARDS, arrays={"values": VALUES, "kl": VALUES})
    damage(sqlite_engine, batch.id, "values", 0)
    with read(sqlite_engine) as session:
        assert set(arrays.rollout_arrays(session, rollout(session, batch.id, 3))) == {"values", "kl"}


@pytest.mark.parametrize("column", ["data", "lengths"])
def test_damage_is_named_with_its_place(engine: Engine, column: str) -> None:
    batch = make_batch(engine, REWARDS, arrays={"values": VALUES})
    damage(engine, batch.id, "values", 1, column)
    message = f"batch {batch.id}, field values, group 1, part 0: the checksum does not fit"
    with read(engine) as session:
        with pytest.raises(Corrupt, match=message) as caught:
            list(arrays.iterate(session, batch.id, "values"))
        assert (caught.value.batch, caught.value.field) == (batch.id, "values")
        assert (caught.value.group, caught.value.part) == (1, 0)
        with pytest.raises(Corrupt, match=message):
            arrays.rollout_arrays(session, rollout(session, batch.id, 4))
    # The groups beside it are still readable.
    with read(engine) as session:
        assert arrays.rollout_arrays(session, rollout(session, batch.id, 0))["values"] is not None


def test_flat_names_damage_too(engine: Engine) -> None:
    batch = make_batch(engine, REWARDS, arrays={"values": VALUES})
    damage(engine, batch.id, "values", 1)
    with read(engine) as session, pytest.raises(Corrupt, match="field values, group 1, part 0: the checksum"):
        arrays.flat(session, batch.id, "values")
    with write(engine) as session:
        session.execute(update(TokenArray).values(lengths=b"\0\0\0"))
    with (
        read(engine) as session,
        pytest.raises(Corrupt, match="field values, group 0, part 0: has lengths of 3"),
    ):
        arrays.flat(session, batch.id, "values")


def test_wrong_kinds_are_refused(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[1]], arrays={"values": [[1.0]]})
    with write(sqlite_engine) as session:
        with pytest.raises(ValueError, match="response_tokens takes lists of texts"):
            arrays.put(session, batch.id, "response_tokens", 0, 0, [np.array([1])])
        with pytest.raises(ValueError, match="kl takes numpy arrays"):
            arrays.put(session, batch.id, "kl", 0, 0, [["a"]])
        assert session.execute(select(TokenArray.field)).scalars().all() == ["values"]


def test_what_is_read_can_be_written_to(sqlite_engine: Engine) -> None:
    """Arrays over read-only memory would make torch warn."""
    fields: dict[str, list[Any]] = {"values": [[1.0]], "response_mask": [[1]], "response_ids": [[5]]}
    batch = make_batch(sqlite_engine, [[1]], arrays=fields)
    with read(sqlite_engine) as session:
        for field in fields:
            flat = arrays.flat(session, batch.id, field)
            assert flat is not None and flat[0].flags.writeable and flat[1].flags.writeable
            ((_, _, (value,)),) = arrays.iterate(session, batch.id, field)
            assert value is not None and value.flags.writeable
        for found in arrays.rollout_arrays(session, rollout(session, batch.id, 0)).values():
            assert isinstance(found, np.ndarray) and found.flags.writeable
