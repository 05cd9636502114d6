"""Estimates: asked for once, stored per rollout, with moments over the steps of a run."""

import threading
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from storage import arrays, estimates
from storage.database import read, write
from storage.estimates import Moments
from storage.models import Batch
from tests.builders import make_batch, make_estimate, make_run


def ask(engine: Engine, batch_id: str, request: dict[str, Any], hash: str) -> tuple[str, bool]:
    with write(engine) as session:
        estimate, created = estimates.request(
            session, batch_id, request, hash, estimator="grpo", convention="grpo/verl", total=2
        )
        return estimate.id, created


def test_the_same_request_is_the_same_estimate(engine: Engine) -> None:
    one, other = make_batch(engine), make_batch(engine)
    first = ask(engine, one.id, {"a": 1}, "h1")
    assert first[1]
    assert ask(engine, one.id, {"a": 1}, "h1") == (first[0], False)
    assert ask(engine, one.id, {"a": 2}, "h2")[0] != first[0]
    assert ask(engine, other.id, {"a": 1}, "h1")[1]
    with read(engine) as session:
        found = estimates.get(session, first[0])
        assert found is not None
        assert (found.state, found.request, found.total, found.default) == ("queued", {"a": 1}, 2, False)
        assert len(estimates.of_batch(session, one.id)) == 2
        assert estimates.get(session, "nothing") is None


def test_many_that_ask_at_once_get_one_estimate(engine: Engine) -> None:
    batch = make_batch(engine)
    start, found = threading.Barrier(4), list[tuple[str, bool]]()

    def asker() -> None:
        start.wait()
        found.append(ask(engine, batch.id, {}, "h"))

    threads = [threading.Thread(target=asker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id for id, _ in found}) == 1
    assert sorted(created for _, created in found) == [False, False, False, True]


def test_own_estimates_come_first_then_by_age(engine: Engine) -> None:
    batch = make_batch(engine)
    made = [make_estimate(engine, batch.id, [0, 0], request={"n": n}, default=n == 1) for n in range(3)]
    with read(engine) as session:
        assert [e.id for e in estimates.of_batch(session, batch.id)] == [made[n].id for n in (1, 0, 2)]
        page = estimates.page(session, batch.id, limit=2)
        assert ([e.id for e in page.items], page.total) == ([made[2].id, made[1].id], 3)
        assert estimates.page(session, limit=2, cursor=page.next).items[0].id == made[0].id


def test_columns_come_back_by_index_whatever_the_order_of_the_chunks(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0, 0.5]])
    id, _ = ask(engine, batch.id, {}, "h")
    with write(engine) as session:
        estimates.put_rollouts(session, id, np.array([2, 0]), {"advantage": np.array([np.inf, -0.5])})
        estimates.put_rollouts(session, id, [1], {"advantage": [np.nan], "raw_m2": [1 / 3]})
        estimates.put_rollouts(session, id, [0], {"advantage": [0.25], "total_abs": [2.0]})  # again
        estimates.put_rollouts(session, id, [], {})
    with read(engine) as session:
        found = estimates.columns(session, id)
    assert found["index"].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found["advantage"], [0.25, np.nan, np.inf])
    np.testing.assert_array_equal(found["raw_m2"], [np.nan, 1 / 3, np.nan])
    np.testing.assert_array_equal(found["total_abs"], [2.0, np.nan, np.nan])
    assert set(found) == {"index", *estimates.COLUMNS}


def test_an_estimate_without_rows_has_empty_columns(engine: Engine) -> None:
    with read(engine) as session:
        found = estimates.columns(session, "nothing")
    assert {name: column.shape for name, column in found.items()} == dict.fromkeys(found, (0,))


def test_columns_that_do_not_exist_are_refused(sqlite_engine: Engine) -> None:
    id, _ = ask(sqlite_engine, make_batch(sqlite_engine).id, {}, "h")
    with write(sqlite_engine) as session:
        with pytest.raises(ValueError, match="not columns of an estimate: mean"):
            estimates.put_rollouts(session, id, [0], {"mean": [1.0]})
        with pytest.raises(ValueError, match="zip"):
            estimates.put_rollouts(session, id, [0, 1], {"advantage": [1.0]})


def test_finishing_stores_the_results_once(engine: Engine) -> None:
    id, _ = ask(engine, make_batch(engine).id, {}, "h")
    with write(engine) as session:
        assert estimates.finish(
            session, id, per_token=True, device="cpu", timing={"s": 1}, summary={"mean": 0.5}
        )
        assert not estimates.finish(session, id, "failed", error="late")
    with read(engine) as session:
        found = estimates.get(session, id)
        assert found is not None
        assert (found.state, found.per_token, found.device, found.error) == ("succeeded", True, "cpu", None)
        assert (found.timing, found.summary) == ({"s": 1}, {"mean": 0.5})


def test_clearing_removes_this_estimate_s_results_only(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], arrays={"values": [[1.0], [2.0]]})
    gone, kept = (make_estimate(engine, batch.id, [1, -1], request={"n": n}) for n in range(2))
    with write(engine) as session:
        for estimate in (gone, kept):
            for name in ("advantages", "returns"):
                field = estimates.field(name, estimate.id)
                arrays.put(session, batch.id, field, 0, 0, [np.array([1.0]), None])
        estimates.clear(session, gone.id)
        estimates.clear(session, "nothing")
    with read(engine) as session:
        assert arrays.fields(session, batch.id) == [f"advantages:{kept.id}", f"returns:{kept.id}", "values"]
        assert estimates.columns(session, gone.id)["index"].tolist() == []
        assert estimates.columns(session, kept.id)["index"].tolist() == [0, 1]


def put(engine: Engine, batch: Batch, count: int, key: str = "k", unit: str = "token") -> None:
    with write(engine) as session:
        estimates.put_moments(session, batch.id, key, {unit: (count, count / 4, count / 2)})


def history(engine: Engine, step: int | None, split: str | None = None, **more: Any) -> list[int]:
    """The counts of the moments, which stand for the batch that they are of."""
    run = make_run(engine)
    asked = {"key": "k", "unit": "token", **more}
    with read(engine) as session:
        found: list[Moments] = estimates.history(session, run.id, split, step, **asked)
    assert all((mean, m2) == (count / 4, count / 2) for count, mean, m2 in found)
    return [count for count, _, _ in found]


def test_history_is_of_the_newest_ready_batch_of_each_step(engine: Engine) -> None:
    steps = [(5, 50), (1, 10), (3, 30), (1, 11), (None, 99)]
    made = [(make_batch(engine, step=step), count) for step, count in steps]
    for batch, count in made:
        put(engine, batch, count)
    put(engine, make_batch(engine, step=3, ready=False), 31)
    put(engine, make_batch(engine, step=2, split="val"), 20)
    put(engine, make_batch(engine, step=2, run="other"), 21)
    put(engine, made[0][0], 51, key="other")
    put(engine, made[0][0], 52, unit="response")
    assert history(engine, 5) == [11, 30, 50]
    assert history(engine, 5, before=True) == [11, 30]
    assert history(engine, 4) == [11, 30]
    assert history(engine, 0) == []
    assert history(engine, None) == []
    assert history(engine, 9, "val") == [20]
    assert history(engine, 5, unit="response") == [52]


def test_moments_are_replaced_and_read_back(engine: Engine) -> None:
    batch = make_batch(engine, step=1)
    put(engine, batch, 4)
    put(engine, batch, 8)
    with read(engine) as session:
        assert estimates.moments_of(session, batch.id, "k", "token") == (8, 2.0, 4.0)
        assert estimates.moments_of(session, batch.id, "k", "response") is None
