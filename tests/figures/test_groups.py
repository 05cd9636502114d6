"""Strips, histogram, length scatter and run figures: what is drawn, and what is said."""

import numpy as np
import pytest
from sqlalchemy import Engine

from app.errors import BadRequest
from app.figures.length_advantage import ranks, spearman, stratified
from app.figures.palette import LIGHT
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED, five, stepped, two_tasks, with_tokens
from tests.figures.test_figures import build


def test_dots_of_the_five_rewards(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, five(sqlite_engine), "group_rewards")
    dots, means = plot["data"]
    assert dots["x"] == [1.0, 0.6, 0.2, 0.0, 0.7] and len(set(dots["y"])) == 1
    assert means["name"] == "group mean" and means["x"] == pytest.approx([0.5])
    assert plot["layout"]["yaxis"]["ticktext"] == ["g0  n=5 σ 0.4"]
    assert [each[0] for each in dots["customdata"]] == [0, 1, 2, 3, 4]


def test_equal_rewards_are_stacked_dimmed_and_named(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[1.0] * 4, [1.0, 1.0, 0.0, 0.0], [0.5]], fields=RECORDED)
    plot = build(sqlite_engine, batch, "group_rewards")
    by_name = {trace["name"]: trace for trace in plot["data"]}
    flat = by_name["no signal"]
    # A rollout without a scored sibling teaches as little as equal ones.
    assert flat["marker"]["color"] == LIGHT["dim"] and flat["x"] == [1.0] * 4 + [0.5]
    assert len(set(flat["y"][:4])) == 4
    assert by_name["rewards differ"]["x"] == [1.0, 1.0, 0.0, 0.0]
    labels = plot["layout"]["yaxis"]["ticktext"]
    assert [label.split("  ")[1] for label in labels] == ["n=4 no signal", "n=4 σ 0.58", "n=1"]
    sentence = plot["layout"]["meta"]["sentence"]
    assert "1 with no signal (all rewards equal), 1 with a single scored rollout." in sentence


def test_groups_are_sorted_and_paged(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[0.4, 0.6], [0.0, 1.0], [0.5, 0.5]], fields=RECORDED)
    plot = build(sqlite_engine, batch, "group_rewards", sort="std", groups=2)
    assert [label.split("  ")[0] for label in plot["layout"]["yaxis"]["ticktext"]] == ["g1", "g0"]
    assert plot["layout"]["meta"]["sentence"].startswith("groups 1 to 2 of 3, n = 4 rollouts")
    last = build(sqlite_engine, batch, "group_rewards", sort="std", **{"from": 2})
    assert last["layout"]["yaxis"]["ticktext"][0].startswith("g2")
    with pytest.raises(BadRequest, match="there are 3 groups"):
        build(sqlite_engine, batch, "group_rewards", **{"from": 3})


def test_no_more_than_two_thousand_dots(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[0.0, 1.0] * 100] * 12, fields=RECORDED)
    plot = build(sqlite_engine, batch, "group_rewards")
    assert plot["layout"]["meta"]["n"] == 2000 and plot["layout"]["meta"]["shown"] == 10


def test_advantages_by_sign(sqlite_engine: Engine) -> None:
    batch = five(sqlite_engine)
    made = make_estimate(sqlite_engine, batch.id, [1.25, 0.25, -0.75, -1.25, 0.0])
    plot = build(sqlite_engine, batch, "group_advantages", estimate=made.id)
    by_name = {trace["name"]: trace for trace in plot["data"]}
    assert by_name["reinforced"]["x"] == [1.25, 0.25] and by_name["suppressed"]["x"] == [-0.75, -1.25]
    assert by_name["zero"]["x"] == [0.0]
    assert plot["layout"]["yaxis"]["ticktext"] == ["g0  100 %"]
    low, high = plot["layout"]["xaxis"]["range"]
    assert low == -high and "max |A| 1.25" in plot["layout"]["meta"]["sentence"]


def test_values_out_of_all_proportion_do_not_set_the_axis(sqlite_engine: Engine) -> None:
    batch = five(sqlite_engine)
    made = make_estimate(sqlite_engine, batch.id, [0.8, -0.8, 0.7, 500_000.0, 1_500_000.0])
    for name in ("group_advantages", "whitening_scopes"):
        plot = build(
            sqlite_engine,
            batch,
            name,
            estimate=made.id,
            **({} if name[0] == "g" else {"source": "advantage"}),
        )
        axis = plot["layout"]["xaxis" if name[0] == "g" else "yaxis"]
        assert (
            axis["range"][1] < 10
            and "2 beyond the axis, up to 1.5e6 in size" in plot["layout"]["meta"]["sentence"]
        )


def test_histogram_by_source(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, two_tasks(sqlite_engine), "reward_histogram")
    by_name = {trace["name"]: trace for trace in plot["data"]}
    assert by_name["proof"]["y"] == [8, 0, 8] and by_name["recall"]["y"] == [2, 14, 0]
    assert plot["layout"]["xaxis"]["ticktext"] == ["0", "0.25", "1"] and plot["layout"]["barmode"] == "stack"
    assert "mean 0.359, std 0.391 (ddof 1), one bar per value" in plot["layout"]["meta"]["sentence"]


def test_continuous_rewards_are_binned(sqlite_engine: Engine) -> None:
    rewards = np.random.default_rng(0).normal(size=(8, 8))
    plot = build(
        sqlite_engine, make_batch(sqlite_engine, rewards.tolist(), fields=RECORDED), "reward_histogram"
    )
    (bars,) = plot["data"]
    assert (
        sum(bars["y"]) == 64 and len(bars["y"]) == 24 and bars["width"] == pytest.approx(np.ptp(rewards) / 24)
    )


def test_spearman_with_ties() -> None:
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [2.5, 1.0, 2.5]
    assert spearman(np.arange(5.0), -np.arange(5.0)) == pytest.approx(-1.0)
    # Ranks 1 2 3 4 against 1.5 1.5 3.5 3.5: 4 / √(5·4).
    assert spearman(np.arange(4.0), np.array([0.0, 0.0, 1.0, 1.0])) == pytest.approx(4 / 20**0.5)
    assert spearman(np.arange(2.0), np.arange(2.0)) is None and spearman(np.arange(4.0), np.ones(4)) is None


def test_length_against_reward(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, two_tasks(sqlite_engine), "length_advantage", y="reward")
    by_name = {trace["name"]: trace for trace in plot["data"]}
    assert by_name["passes"]["x"] == [40] * 8 and by_name["fails"]["y"].count(0.25) == 14
    # Ranks of length 4.5 (8 times), 16.5 (16), 28.5 (8); of reward 5.5 (10), 17.5 (14), 28.5 (8); means 16.5.
    assert plot["layout"]["meta"]["spearman"] == pytest.approx(2208 / (2304 * 2376) ** 0.5)
    assert "n = 32 rollouts, Spearman ρ 0.944" in plot["layout"]["meta"]["sentence"]


def test_stratified_choice_keeps_shares_and_ends() -> None:
    random = np.random.default_rng(0)
    length, outcome = random.integers(1, 5000, 20_000), random.random(20_000) < 0.1
    kept = stratified(length, outcome, 2000)
    assert 1900 <= kept.size <= 2000 and outcome[kept].mean() == pytest.approx(0.1, abs=0.01)
    assert np.array_equal(kept, stratified(length, outcome, 2000)) and np.unique(kept).size == kept.size
    assert length[kept].min() == length.min() and length[kept].max() == length.max()


def test_unscored_rollouts_are_no_failures(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    plot = build(sqlite_engine, batch, "length_advantage", estimate="recorded")
    assert [trace["name"] for trace in plot["data"]][-1] == "not scored"


def test_bands_over_steps(sqlite_engine: Engine) -> None:
    rewards = [[[0.0, 0.5, 1.0]], [[0.2, 0.2, 0.8]]]
    plot = build(sqlite_engine, stepped(sqlite_engine, rewards)[0], "reward_over_steps")
    by_name = {trace["name"]: trace for trace in plot["data"]}
    assert by_name["median"]["y"] == [0.5, 0.2] and by_name["median"]["x"] == [1, 2]
    assert by_name["mean"]["y"] == pytest.approx([0.5, 0.4])
    assert by_name["25 to 75 %"]["y"] == pytest.approx([0.25, 0.2]) and by_name["75 %"]["y"] == pytest.approx(
        [0.75, 0.5]
    )
    assert by_name["25 to 75 %"]["fill"] == "tonexty"


def test_signal_budget_over_steps(sqlite_engine: Engine) -> None:
    rewards = [[[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]]
    plot = build(sqlite_engine, stepped(sqlite_engine, rewards)[0], "signal_over_steps")
    by_name = {trace["name"]: trace["y"] for trace in plot["data"]}
    assert by_name == {
        "mixed: rewards differ": [50.0, 0.0],
        "all pass": [25.0, 50.0],
        "all fail": [25.0, 50.0],
    }
    assert "n = 6 groups, 33 % of them" in plot["layout"]["meta"]["sentence"]


def test_only_one_split_and_the_last_steps(sqlite_engine: Engine) -> None:
    batches = stepped(sqlite_engine, [[[1.0, 0.0]]] * 5)
    plot = build(sqlite_engine, batches[0], "reward_over_steps", last=2)
    assert plot["data"][0]["x"] == [4, 5] and "the last 2 of 5 steps" in plot["layout"]["meta"]["sentence"]
    other = build(sqlite_engine, batches[0], "reward_over_steps", split="validation")
    assert other["layout"]["meta"]["empty"] == "no steps recorded for this run."
