"""Rollouts: columns of a whole batch, and the list with its sorts, filters and search."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from storage import batches, rollouts, runs
from storage.database import AnySession, read, write
from storage.models import Batch
from storage.rollouts import Filter
from tests.builders import make_batch, make_estimate, make_upload

REWARDS: list[list[float | None]] = [[1.0, 0.5], [None, 0.5, 0.0]]


def listed(session: AnySession, batch: Batch, limit: int = 2, **options: Any) -> list[int]:
    """Indices of all pages, which must agree on the total."""
    found: list[int] = []
    cursor = None
    while True:
        page = rollouts.page(session, batch.id, limit=limit, cursor=cursor, **options)
        found += [row.index for row in page.items]
        cursor = page.next
        if cursor is None:
            assert page.total == len(found)
            return found


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_every_sort_with_nulls_last_and_ties_by_index(engine: Engine, limit: int) -> None:
    batch = make_batch(engine, REWARDS, lengths=[3, 1, 2, 1, 0], columns={"advantage": [0, 1, None, 1, -1]})
    expected = {
        "index": [0, 1, 2, 3, 4], "-index": [4, 3, 2, 1, 0], "reward": [4, 1, 3, 0, 2],
        "-reward": [0, 1, 3, 4, 2], "length": [4, 1, 3, 2, 0], "-length": [0, 2, 1, 3, 4],
        "advantage": [4, 0, 1, 3, 2], "-advantage": [1, 3, 0, 4, 2], "group": [0, 1, 2, 3, 4],
        "-group": [2, 3, 4, 0, 1],
    }  # fmt: skip
    with read(engine) as session:
        for sort, order in expected.items():
            assert (sort, listed(session, batch, limit, sort=sort)) == (sort, order)


def test_the_advantage_of_an_estimate(engine: Engine) -> None:
    batch = make_batch(engine, REWARDS, columns={"advantage": [9.0] * 5})
    estimate = make_estimate(engine, batch.id, [0.1, -2.0, float("nan"), float("inf"), 1 / 3])
    with read(engine) as session:
        assert listed(session, batch, estimate_id=estimate.id, sort="-advantage") == [3, 4, 0, 1, 2]
        page = rollouts.page(session, batch.id, estimate.id)
        assert [row.advantage for row in page.items] == [0.1, -2.0, None, float("inf"), 1 / 3]
        assert [row.advantage for row in rollouts.page(session, batch.id).items] == [9.0] * 5


def test_filters_narrow_and_combine(engine: Engine) -> None:
    columns = {"finish_reason": ["stop", "length", "stop", None, "stop"]}
    batch = make_batch(engine, REWARDS, data_sources=["math", None], columns=columns)
    cases: list[tuple[Filter, list[int]]] = [
        (Filter(), [0, 1, 2, 3, 4]),
        (Filter(group_id="g1"), [2, 3, 4]),
        (Filter(group_id="g"), []),
        (Filter(group_no=0), [0, 1]),
        (Filter(data_source="math"), [0, 1]),
        (Filter(finish_reason="stop"), [0, 2, 4]),
        (Filter(reward_min=0.5), [0, 1, 3]),
        (Filter(reward_max=0.5), [1, 3, 4]),
        (Filter(reward_min=0.5, reward_max=0.5), [1, 3]),
        (Filter(reward_min=0.5, finish_reason="stop", group_id="g0"), [0]),
    ]
    with read(engine) as session:
        for chosen, expected in cases:
            assert (chosen, listed(session, batch, filter=chosen)) == (chosen, expected)


def test_search_takes_every_character_as_it_is(engine: Engine) -> None:
    texts = ["50% of it", "a_b", "axb 500", "back\\slash / *", "Ünï 'quoted' \x00 end"]
    batch = make_batch(
        engine, REWARDS, prompts=["What is Love?", None],
        columns={"response": texts, "prompt": [None] * 4 + ["an own prompt"]},
    )  # fmt: skip
    cases = {
        "50%": [0], "a_b": [1], "back\\slash": [3], "/ *": [3], "'quoted' \x00": [4], "AXB": [2],
        "love": [0, 1], "own prompt": [4], "": [0, 1, 2, 3, 4], "nothing like it": [],
    }  # fmt: skip
    with read(engine) as session:
        for q, expected in cases.items():
            assert (q, listed(session, batch, q=q)) == (q, expected)
        assert listed(session, batch, q="a", filter=Filter(group_no=1), sort="-index") == [4, 3, 2]
        with pytest.raises(ValueError, match="at most 1000"):
            rollouts.page(session, batch.id, q="a" * 1001)


def test_a_row_says_which_group_it_is_of(engine: Engine) -> None:
    batch = make_batch(engine, REWARDS, lengths=[3, 1, 2, 1, 0], data_sources=["math", "code"])
    with read(engine) as session:
        row = rollouts.page(session, batch.id).items[3]
    assert (row.group_id, row.group_no, row.data_source, row.row) == ("g1", 1, "code", 4)
    assert (row.reward, row.length, row.valid, row.finish_reason) == (0.5, 1, 1, None)


def test_columns_are_in_storage_order_whatever_the_order_of_the_file(engine: Engine) -> None:
    """The file interleaves two groups; the second one comes in two parts."""
    upload = make_upload(engine)
    placed = [(0, 0, [0, 2]), (1, 0, [1, 3]), (1, 1, [4])]
    with write(engine) as session:
        run = runs.get_or_create(session, "run")
        batch = batches.begin(session, run_id=run.id, upload_id=upload.id, format="jsonl")
        for group_no, part, indices in placed:
            prompt = {"group_id": f"g{group_no}"} if part == 0 else None
            rows = [{"index": i, "row": i + 1, "digest": str(i), "reward": float(i)} for i in indices]
            batches.add_part(session, batch.id, group_no, part, prompt, rows, {})
        batches.finish(session, batch.id)
    with read(engine) as session:
        found = rollouts.columns(session, batch.id)
        assert [row.index for row in rollouts.of_group(session, batch.id, 1)] == [1, 3, 4]
    assert found.index.tolist() == [0, 2, 1, 3, 4]
    assert list(zip(found.group_no.tolist(), found.part.tolist(), found.slot.tolist(), strict=True)) == [
        (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0),
    ]  # fmt: skip
    assert found.digest.tolist() == ["0", "2", "1", "3", "4"]


def test_columns_tell_what_is_not_recorded(engine: Engine) -> None:
    batch = make_batch(
        engine, [[1.5, None]], data_sources=["ma\x00th"],
        columns={
            "rank": [-1, None], "length": [None, 3], "truncated": [True, None],
            "bootstrap_value": [None, 0.25], "reward_components": [{"a": 1, "b": None}, {"c": float("inf")}],
            "reward_nonfinite": [None, "NaN"], "rollout_id": ["r", None],
        },
    )  # fmt: skip
    with read(engine) as session:
        found = rollouts.columns(session, batch.id)
    assert found.rank.tolist() == [-1, -1] and found.known["rank"].tolist() == [True, False]
    assert found.length.tolist() == [-1, 3] and found.known["length"].tolist() == [False, True]
    np.testing.assert_array_equal(found.reward, [1.5, np.nan])
    np.testing.assert_array_equal(found.bootstrap_value, [np.nan, 0.25])
    assert found.truncated.tolist() == [True, None]
    assert found.data_source.tolist() == ["ma\x00th", "ma\x00th"]
    assert found.reward_nonfinite.tolist() == [None, "NaN"]
    assert found.rollout_id.tolist() == ["r", None]
    assert list(found.components) == ["a", "b", "c"]
    np.testing.assert_array_equal(found.components["a"], [1, np.nan])
    np.testing.assert_array_equal(found.components["c"], [np.nan, np.inf])


def test_columns_of_an_empty_batch(engine: Engine) -> None:
    batch = make_batch(engine, [])
    with read(engine) as session:
        found = rollouts.columns(session, batch.id)
        assert rollouts.page(session, batch.id).items == []
    assert found.rollouts == 0 and found.components == {}
    assert found.reward.dtype == np.float64 and found.index.dtype == np.int64


def test_one_rollout(engine: Engine) -> None:
    batch = make_batch(
        engine, REWARDS, columns={"messages": [[{"role": "user", "content": "hi"}]] + [None] * 4}
    )
    with read(engine) as session:
        found = rollouts.get(session, batch.id, 0)
        assert found is not None and found.messages == [{"role": "user", "content": "hi"}]
        assert rollouts.get(session, batch.id, 5) is None
        for id, index in (
            ("nothing", 0),
            ("\x00\ud800", 0),
            ("x" * 1000, 0),
            (batch.id, 2**63),
            (batch.id, -1),
        ):
            assert rollouts.get(session, id, index) is None
