"""The stored statistics: numbers worked out by hand."""

import json
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from app import findings
from app.findings import statistics
from storage.database import read
from tests.builders import make_batch


def of(engine: Engine, rewards: Any, **given: Any) -> dict[str, Any]:
    batch = make_batch(engine, rewards, **({"fields": {"group_id": "recorded"}} | given))
    with read(engine) as session:
        found = statistics.for_batch(session, batch.id)
    json.dumps(found, allow_nan=False)
    return found


def test_five_rewards(sqlite_engine: Engine) -> None:
    said = of(sqlite_engine, [[1.0, 0.6, 0.2, 0.0, 0.7]])["reward"]
    assert said["n"] == 5 and said["mean"] == pytest.approx(0.5) and said["std"] == pytest.approx(0.4)
    # Linear quantiles of 0, 0.2, 0.6, 0.7, 1.
    assert said["quantiles"] == pytest.approx({"5": 0.04, "25": 0.2, "50": 0.6, "75": 0.7, "95": 0.94})


def test_signal_budget_and_tasks(sqlite_engine: Engine) -> None:
    rewards = [[0.0] * 4, [1.0] * 4, [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0], [None, None]]
    said = of(
        sqlite_engine,
        rewards,
        lengths=[10] * 19,
        data_sources=["a", "a", "b", "b", "b", None],
        columns={
            "truncated": [True] * 4 + [False] * 12 + [None] * 3,
            "finish_reason": [None] * 16 + ["length", "stop", None],
        },
    )
    groups = {"fail": 1, "pass": 1, "near_zero": 0, "mixed": 2, "single": 1, "unscored": 1}
    assert said["signal"]["groups"] == groups
    assert said["signal"]["rollouts"] == {
        "fail": 4,
        "pass": 4,
        "near_zero": 0,
        "mixed": 8,
        "single": 1,
        "unscored": 2,
    }
    assert said["zero_signal_share"] == 0.5 and said["pass_above"] == 0.5
    assert said["truncated"] == {"n": 5, "known": 18}
    assert said["reward"]["unscored"] == 2 and said["group_size"] == {"usual": 4, "min": 1, "max": 4}
    first, second = said["data_sources"]
    assert (first["data_source"], first["rollouts"], first["groups"], first["mean"]) == ("a", 8, 2, 0.5)
    assert first["zero_signal_share"] == 1.0 and second["zero_signal_share"] == 0.0
    assert second["n"] == 9 and second["mean"] == pytest.approx(4 / 9)


def test_length_by_outcome(sqlite_engine: Engine) -> None:
    said = of(sqlite_engine, [[1.0, 0.0, 1.0, 0.0]], lengths=[10, 30, 20, 50])["length"]
    assert said["n"] == 4 and said["trainable"] == 110
    assert (said["pass"]["mean"], said["fail"]["mean"]) == (15.0, 40.0)


def test_histogram_by_value_or_by_bin(sqlite_engine: Engine) -> None:
    assert statistics.histogram(np.array([1.0, 0.0, 1.0, np.nan]))["counts"] == [1, 2]
    many = statistics.histogram(np.arange(100.0))
    assert many["values"] is None and len(many["edges"]) == 25 and sum(many["counts"]) == 100


def test_without_rewards_groups_or_tokens(sqlite_engine: Engine) -> None:
    said = of(sqlite_engine, [[None], [None]], fields={"group_id": "absent"})
    assert said["signal"] is None and said["group_size"] is None and said["zero_signal_share"] is None
    assert said["reward"]["mean"] is None and said["length"]["n"] == 0
    assert of(sqlite_engine, [], run="other")["rollouts"] == 0


def test_reading_once_says_the_same(sqlite_engine: Engine) -> None:
    tokens = {"advantages": [np.arange(3.0), np.ones(2)]}
    batch = make_batch(sqlite_engine, [[1.0, 0.0]], lengths=[3, 2], arrays=tokens)
    with read(sqlite_engine) as session:
        both, found = findings.assess(session, batch.id)
        assert both == statistics.for_batch(session, batch.id)
        assert found == findings.run(session, batch.id)
    assert both["advantage"]["n"] == 0  # none is recorded of a rollout
