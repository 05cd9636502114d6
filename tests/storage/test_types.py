"""Text and JSON of any kind come back as they were, on both databases."""

import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from storage import rollouts
from storage.database import read, write
from storage.models import Batch, Rollout
from tests.builders import make_batch

# Surrogates, NUL and the escape character itself included.
TEXT = st.text(st.characters(codec=None), max_size=8) | st.text("\x00\x10\ud800\udfff0a", max_size=8)
FAST = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def stored(engine: Engine, batch_id: str, **columns: Any) -> Rollout:
    with write(engine) as session:
        row = session.get_one(Rollout, (batch_id, 0))
        for name, value in columns.items():
            setattr(row, name, value)
    with read(engine) as session:
        return session.get_one(Rollout, (batch_id, 0))


def test_any_text(engine: Engine) -> None:
    batch = make_batch(engine, [[1]])

    @FAST
    @given(TEXT)
    def check(text: str) -> None:
        assert stored(engine, batch.id, response=text).response == text
        with read(engine) as session:
            assert not text or "\x10" in text or rollouts.page(session, batch.id, q=text).total == 1

    check()


def test_any_json(engine: Engine) -> None:
    batch = make_batch(engine, [[1]])
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)

    @FAST
    @given(st.dictionaries(st.text(max_size=4), st.recursive(plain, st.lists, max_leaves=4), max_size=3))
    def check(value: dict[str, Any]) -> None:
        assert stored(engine, batch.id, extra=value).extra == value

    check()


def test_json_keeps_what_databases_refuse(engine: Engine) -> None:
    batch = make_batch(engine, [[1]])
    value = {"nan": math.nan, "inf": [math.inf, -math.inf], "nul": "a\x00b", "half": "\ud83d", "big": 2**70}
    found = stored(engine, batch.id, extra=value).extra
    assert found is not None
    assert math.isnan(found.pop("nan"))
    assert found == {name: part for name, part in value.items() if name != "nan"}


def test_our_own_json_is_kept_as_well(engine: Engine) -> None:
    statistics = {"inf": [math.inf, 0.1, -0.0], "count": 2**63 - 1, "half": "\ud83d\x00", "empty": {}}
    for value in (statistics, {"plain": [1, 0.1]}):
        batch = make_batch(engine, statistics=value, findings=[])
        with read(engine) as session:
            found = session.get_one(Batch, batch.id)
            assert (found.statistics, found.findings) == (value, [])


def test_null_is_null(engine: Engine) -> None:
    batch = make_batch(engine, [[1]])
    row = stored(engine, batch.id, extra=None, response=None)
    assert row.extra is None and row.response is None
