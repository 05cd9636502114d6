"""Pages and their cursors."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from storage import rollouts, runs
from storage.database import read
from storage.pages import BadCursor, decode_cursor, encode_cursor
from tests.builders import make_batch

KEYS = st.none() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8)


@given(st.text(max_size=8), KEYS, KEYS)
def test_a_cursor_comes_back_exactly(name: str, key: object, tie: object) -> None:
    assert decode_cursor(encode_cursor(name, key, tie), name) == (key, tie)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    ["", "!", "é", "a", "AAAA", encoded([]), encoded(["other", 1, 2]), encoded(["index", [1], 2]),
     encoded(["index", {}, 2]), encoded({"index": 1}), encoded(["index", 1]), encoded(7), "[" * 100_000],
)  # fmt: skip
def test_a_cursor_from_elsewhere_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor, match="start again without one"):
        decode_cursor(cursor, "index")


def test_a_cursor_of_another_sort_is_refused(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[1, 0, 0.5]])
    with read(sqlite_engine) as session:
        first = rollouts.page(session, batch.id, sort="reward", limit=1)
        with pytest.raises(BadCursor):
            rollouts.page(session, batch.id, sort="-reward", limit=1, cursor=first.next)


def test_a_sort_or_limit_that_does_not_exist_is_refused(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine)
    with read(sqlite_engine) as session:
        with pytest.raises(ValueError, match="cannot sort by 'size'; choose one of index, reward, length"):
            rollouts.page(session, batch.id, sort="-size")
        with pytest.raises(ValueError, match="limit must be at least 1"):
            rollouts.page(session, batch.id, limit=0)


def test_the_last_page_has_no_next(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0, 0.5, 0.25]])
    with read(engine) as session:
        first = rollouts.page(session, batch.id, limit=2)
        assert first.next is not None and [row.index for row in first.items] == [0, 1]
        second = rollouts.page(session, batch.id, limit=2, cursor=first.next)
        assert second.next is None and [row.index for row in second.items] == [2, 3]
        assert (first.total, second.total) == (4, 4)


def test_rows_that_come_in_between_neither_repeat_nor_hide_others(engine: Engine) -> None:
    """Runs are listed newest first; a new one does not push an old one onto the next page."""
    for name in "abcd":
        make_batch(engine, run=name)
    with read(engine) as session:
        first = runs.page(session, limit=2)
    make_batch(engine, run="e")
    with read(engine) as session:
        second = runs.page(session, limit=2, cursor=first.next)
    assert [row.name for row in first.items] == ["d", "c"]
    assert [row.name for row in second.items] == ["b", "a"]
    assert second.total == 5
