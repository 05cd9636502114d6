"""Whose tokens the loss listens to, and what clipping would do: shares, bins, ratios."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from app.figures.loss_weights import bins_of
from app.figures.weights import effective
from storage.models import Batch
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED, two_tasks, with_tokens
from tests.figures.test_figures import build


def two(engine: Engine, lengths: tuple[int, ...] = (10, 30), **finish: Any) -> Batch:
    """One group of two: a short one that is pushed up, a long one that is pushed down, |A| = 1."""
    fields = RECORDED | {"response_mask": "recorded"}
    batch = make_batch(engine, [[1.0, 0.0]], lengths=lengths, fields=fields, **finish)
    make_estimate(engine, batch.id, [1.0, -1.0])
    return batch


def heights(plot: dict[str, Any]) -> dict[str, list[float]]:
    return {trace["name"]: trace["y"] for trace in plot["data"]}


@pytest.mark.parametrize(
    ("mode", "short"),
    [
        ("token-mean", 25.0),
        ("token-sum", 25.0),
        ("seq-mean-token-mean", 50.0),
        ("dr_grpo", 25.0),
        ("dapo", 25.0),
    ],
)
def test_shares_by_length(sqlite_engine: Engine, mode: str, short: float) -> None:
    drawn = heights(build(sqlite_engine, two(sqlite_engine), "loss_weights", mode=mode))
    assert drawn["reinforced"] == pytest.approx([short, 0.0], abs=1e-6)
    assert drawn["suppressed"] == pytest.approx([0.0, 100.0 - short], abs=1e-6)
    assert drawn["share of tokens"] == [25.0, 75.0] and drawn["share of responses"] == [50.0, 50.0]


def test_the_header_says_the_mode(sqlite_engine: Engine) -> None:
    batch = two(sqlite_engine, header={"loss_agg_mode": "seq-mean-token-mean"})
    assert build(sqlite_engine, batch, "loss_weights")["layout"]["meta"]["mode"] == "seq-mean-token-mean"
    other = two(sqlite_engine, (3, 3), header={"loss_agg_mode": ["odd"]}, run="other")
    assert build(sqlite_engine, other, "loss_weights")["layout"]["meta"]["mode"] == "token-mean"


def test_dapo_weighs_prompts_alike(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[1.0, 0.0], [1.0, 0.0]], lengths=[1, 1, 40, 40], fields=RECORDED)
    make_estimate(sqlite_engine, batch.id, [1.0, -1.0, 1.0, -1.0])
    plot = build(sqlite_engine, batch, "loss_weights", mode="dapo", by="group")
    drawn = heights(plot)
    assert [drawn["reinforced"], drawn["suppressed"]] == [pytest.approx([25.0, 25.0])] * 2
    assert plot["layout"]["xaxis"]["ticktext"] == ["g0", "g1"]
    assert plot["data"][0]["customdata"][0] == [1, f"/batches/{batch.id}/groups/0"]


def test_responses_are_dots_that_open_them(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, two_tasks(sqlite_engine), "loss_weights", by="response")
    (dots,) = plot["data"]
    assert dots["name"] == "weight in the loss" and sum(dots["y"]) == pytest.approx(100.0)
    assert "no advantages" in plot["layout"]["meta"]["sentence"]


def test_effective_number() -> None:
    assert effective(np.full(8, 1 / 8)) == pytest.approx(8.0)
    assert effective(np.array([1.0, 0.0])) == 1.0 and effective(np.zeros(3)) == 0.0


def test_bins_hold_about_equally_many_and_never_part_equals() -> None:
    bins = bins_of(np.arange(1, 81))
    assert [part.size for _, _, part in bins] == [10] * 8 and bins[0][:2] == (1, 10)
    assert [part.size for _, _, part in bins_of(np.array([5, 5, 5, 0, 9]))] == [3, 1]
    assert bins_of(np.zeros(4, dtype=np.int64)) == []


def test_ratio_by_what_clipping_does(sqlite_engine: Engine) -> None:
    old = [np.log([1.5, 1.0, 0.5, 1.5]), np.log([1.5, 1.0, 0.5, 0.5])]
    batch = make_batch(
        sqlite_engine,
        [[1.0, 0.0]],
        arrays={
            "old_log_probs": old,
            "rollout_log_probs": [np.zeros(4), np.zeros(4)],
            "response_mask": [[1, 1, 1, 0], [1, 1, 1, 1]],
        },
        fields=RECORDED
        | {name: "recorded" for name in ("old_log_probs", "rollout_log_probs", "response_mask")},
    )
    make_estimate(sqlite_engine, batch.id, [1.0, -1.0])
    plot = build(sqlite_engine, batch, "loss_weights", by="ratio")
    said = plot["layout"]["meta"]
    # Pushed up: 1.5 is clipped, 0.5 is not. Pushed down: the other way round. Masked ones count nowhere.
    assert said["n"] == 7 and said["clipped_above"] == pytest.approx(1 / 7)
    assert said["clipped_below"] == pytest.approx(2 / 7) and "71 % outside [0.8, 1.2]" in said["sentence"]
    wide = build(sqlite_engine, batch, "loss_weights", by="ratio", clip_high=1.5, clip_low=1)
    assert wide["layout"]["meta"]["clip_fraction"] == 0.0


def test_what_there_is_not_is_said(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    why = build(sqlite_engine, batch, "loss_weights", by="ratio")["layout"]["meta"]["empty"]
    assert why == "no values recorded: rollout_log_probs, so there is no ratio."
    flat = make_batch(sqlite_engine, [[1.0, 1.0]], lengths=[2, 3], fields=RECORDED, run="flat")
    make_estimate(sqlite_engine, flat.id, [0.0, 0.0])
    assert (
        build(sqlite_engine, flat, "loss_weights")["layout"]["meta"]["empty"]
        == "no gradient: every advantage is 0."
    )
