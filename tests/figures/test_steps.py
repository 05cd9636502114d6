"""Lengths and advantages over the steps of a run: what is drawn, and what is said."""

from typing import Any

import pytest
from sqlalchemy import Engine

from storage import estimates
from storage.database import write
from storage.models import Batch
from tests.builders import make_batch, make_estimate
from tests.figures.batches import stepped
from tests.figures.test_figures import build

REWARDS = [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]


def traces(plot: dict[str, Any]) -> dict[str, Any]:
    return {trace["name"]: trace for trace in plot["data"]}


def summarised(engine: Engine, batch: Batch, values: list[float], **more: Any) -> None:
    """A finished estimate whose quantiles are the five values."""
    made = make_estimate(engine, batch.id, [0.0], **more)
    keys = ("0.05", "0.25", "0.5", "0.75", "0.95")
    said = {"over": "tokens", "count": 7, "mean": 0.0, "quantiles": dict(zip(keys, values, strict=True))}
    with write(engine) as session:
        estimate = estimates.get(session, made.id)
        assert estimate is not None
        estimate.summary = said


def test_lengths_by_outcome(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, stepped(sqlite_engine, REWARDS)[0], "length_over_steps")
    drawn = traces(plot)
    # Step 1: passing ones have 11 and 12 tokens, failing ones 10 and 13; in step 3 none fails.
    assert drawn["passes: median"]["y"] == [11.5, 22.5, 31.5]
    assert drawn["fails: median"]["y"] == [11.5, 20.5, None]
    assert drawn["passes: median"]["line"]["dash"] != drawn["fails: median"]["line"]["dash"]
    assert drawn["25 to 75 %"]["y"][0] == pytest.approx(10.75) and drawn["25 to 75 %"]["fill"]
    assert (
        "n = 12 responses; bands of quantiles within each step, and the medians by outcome."
        in (plot["layout"]["meta"]["sentence"])
    )


def test_lengths_without_rewards(sqlite_engine: Engine) -> None:
    batch = make_batch(
        sqlite_engine, [[None]], statistics={"length": {"n": 1, "all": {"quantiles": {"50": 3.0}}}}
    )
    plot = build(sqlite_engine, batch, "length_over_steps")
    assert traces(plot)["median"]["y"] == [3.0] and "no rewards tell" in plot["layout"]["meta"]["sentence"]
    bare = make_batch(sqlite_engine, [[1.0]], run="bare")
    why = build(sqlite_engine, bare, "length_over_steps")["layout"]["meta"]["empty"]
    assert why == "no values recorded: response tokens."


def test_recorded_advantages_where_nothing_is_computed(sqlite_engine: Engine) -> None:
    batches = stepped(sqlite_engine, REWARDS)
    plot = build(sqlite_engine, batches[0], "advantage_over_steps")
    assert traces(plot)["median"]["y"] == [0.0, 0.0, 0.5]
    assert "recorded advantages, one mean per rollout, 3 steps, n = 12" in plot["layout"]["meta"]["sentence"]


def test_the_convention_of_most_steps_is_drawn(sqlite_engine: Engine) -> None:
    batches = stepped(sqlite_engine, REWARDS)
    gae = {"convention": "gae/verl", "estimator": "gae"}
    for batch in batches[:2]:
        summarised(sqlite_engine, batch, [-2, -1, 0.25, 1, 2])
    summarised(sqlite_engine, batches[0], [-9, -9, 9, 9, 9], **gae)
    # Asked for later, with another setting: Vantage's own, or else the first one, is the one drawn.
    summarised(sqlite_engine, batches[0], [0, 0, 7, 7, 7], request={"estimator": "grpo", "other": 1})
    plot = build(sqlite_engine, batches[0], "advantage_over_steps")
    assert traces(plot)["median"]["x"] == [1, 2] and traces(plot)["median"]["y"] == [0.25, 0.25]
    said = plot["layout"]["meta"]["sentence"]
    assert said.startswith("grpo/verl (recomputed, over tokens)") and "1 of the steps have none" in said
    named = build(sqlite_engine, batches[0], "advantage_over_steps", advantages="gae/verl")
    assert traces(named)["median"]["y"] == [9.0]
    recorded = build(sqlite_engine, batches[0], "advantage_over_steps", advantages="recorded")
    assert recorded["layout"]["meta"]["steps"] == 3
    none = build(sqlite_engine, batches[0], "advantage_over_steps", advantages="<b>")
    assert none["layout"]["meta"]["empty"] == "no advantages: no step of this run has &lt;b&gt; (recomputed)."


def test_one_wild_step_does_not_set_the_axis(sqlite_engine: Engine) -> None:
    batches = stepped(sqlite_engine, REWARDS)
    for number, batch in enumerate(batches):
        summarised(sqlite_engine, batch, [-1, -1, 0, 1, 1e6 if number == 1 else 2])
    plot = build(sqlite_engine, batches[0], "advantage_over_steps")
    assert plot["layout"]["yaxis"]["range"][1] < 10
    assert "1 beyond the axis, up to 1e6 in size" in plot["layout"]["meta"]["sentence"]
