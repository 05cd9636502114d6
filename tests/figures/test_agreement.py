"""Estimates against each other, and recorded advantages against an estimate."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from app.figures.chosen import Chosen
from app.figures.estimator_agreement import MOST, agreement
from app.figures.palette import LIGHT
from app.figures.wording import told_apart
from estimators import Request
from storage.models import Batch, Estimate
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED, estimate_tokens, with_tokens
from tests.figures.test_figures import build


def four(engine: Engine, advantages: list[float] | None = None) -> Batch:
    columns = {} if advantages is None else {"advantage": advantages}
    fields = RECORDED | ({} if advantages is None else {"advantage": "recorded"})
    return make_batch(engine, [[1.0, 0.0], [0.5, 0.0]], fields=fields, columns=columns)


def meta(plot: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = plot["layout"]["meta"]
    return said


def test_agreement_counts_rollouts_that_have_both() -> None:
    found = agreement(np.array([1.0, -1.0, 0.0, np.nan]), np.array([2.0, 1.0, 0.0, 1.0]))
    assert (found.n, found.same) == (3, 2) and found.rho == pytest.approx(0.5)
    assert agreement(np.array([np.nan]), np.array([1.0])).n == 0


def test_matrix_of_estimates(sqlite_engine: Engine) -> None:
    batch = four(sqlite_engine, [1.0, -1.0, 0.5, -0.5])
    one = make_estimate(sqlite_engine, batch.id, [1.0, -1.0, 0.6, -0.5])
    two = make_estimate(
        sqlite_engine, batch.id, [-1.0, 1.0, 0.6, -0.5], convention="rloo/trl", estimator="rloo"
    )
    plot = build(sqlite_engine, batch, "estimator_agreement")
    said = meta(plot)
    assert [each["key"] for each in said["estimates"]] == ["recorded", one.id, two.id]
    assert said["equal_signs"] == [[None, 1.0, 0.5], [1.0, None, 0.5], [0.5, 0.5, None]]
    assert said["spearman"][0][1] == pytest.approx(1.0)
    # ρ above the diagonal, signs below; both from −1 to 1.
    grid = plot["data"][0]["z"]
    assert grid[0][1] == pytest.approx(1.0) and grid[2][0] == 0.0 and grid[1][1] is None
    assert "Least alike: rloo/trl and recorded, 2 of 4 signs equal." in said["sentence"]
    assert plot["data"][0]["customdata"][1][2].startswith(f"/batches/{batch.id}/compare?")


def test_too_many_estimates_are_counted(sqlite_engine: Engine) -> None:
    batch = four(sqlite_engine)
    for number in range(MOST + 2):
        asked = {"convention": "grpo/verl", "estimator": "grpo", "params": {"epsilon": float(number)}}
        last = make_estimate(sqlite_engine, batch.id, [1.0, -1.0, 0.0, number], request=asked)
    plot = build(sqlite_engine, batch, "estimator_agreement", estimate=last.id)
    assert len(meta(plot)["estimates"]) == MOST and meta(plot)["estimates"][0]["key"] == last.id
    assert meta(plot)["sentence"].endswith("2 more estimates are not shown.")
    # Two of one convention are told apart by their parameters.
    assert any("eps 3" in label for label in plot["layout"]["yaxis"]["ticktext"])


def test_two_as_a_scatter(sqlite_engine: Engine) -> None:
    batch = four(sqlite_engine, [1.0, -1.0, 0.5, -0.5])
    one = make_estimate(sqlite_engine, batch.id, [1.0, 1.0, 0.6, -0.5])
    plot = build(sqlite_engine, batch, "estimator_agreement", estimate="recorded", against=one.id)
    drawn = {trace["name"]: trace for trace in plot["data"]}
    assert (
        drawn["opposite signs"]["x"] == [-1.0] and drawn["opposite signs"]["marker"]["color"] == LIGHT["flip"]
    )
    assert drawn["not opposite"]["y"] == [1.0, 0.6, -0.5]
    assert "1 (25 %) with opposite signs" in meta(plot)["sentence"]


def test_recorded_per_rollout(sqlite_engine: Engine) -> None:
    batch = four(sqlite_engine, [1.0, -1.0, 0.5, float("nan")])
    one = make_estimate(sqlite_engine, batch.id, [1.0, -1.2, 0.5, 1.0])
    plot = build(sqlite_engine, batch, "recorded_vs_recomputed", estimate=one.id)
    drawn = {trace["name"]: trace for trace in plot["data"]}
    assert drawn["deviates"]["x"] == [-1.0] and drawn["deviates"]["marker"]["color"] == LIGHT["flip"]
    said = meta(plot)
    assert (said["n"], said["deviating"], said["unit"]) == (3, 1, "rollout")
    assert (
        said["max_abs_error"] == pytest.approx(0.2) and "1 of 3 rollouts (33 %) deviates" in said["sentence"]
    )


def test_recorded_per_token_on_unmasked_tokens_only(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    same = estimate_tokens(sqlite_engine, batch, scale=1.0)
    said = meta(build(sqlite_engine, batch, "recorded_vs_recomputed", estimate=same.id))
    assert said["unit"] == "token" and said["deviating"] == 0 and said["within_1e-6"] == 1.0


def test_every_deviation_is_among_the_drawn(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine, groups=24, size=8, longest=60)
    double = estimate_tokens(sqlite_engine, batch)
    plot = build(sqlite_engine, batch, "recorded_vs_recomputed", estimate=double.id)
    said = meta(plot)
    assert said["n"] > said["shown"] and said["shown"] <= 2500 and "drawn." in said["sentence"]
    one = build(sqlite_engine, batch, "recorded_vs_recomputed", estimate=double.id, group="g1")
    assert meta(one)["n"] < said["n"] and meta(one)["rollouts"] <= 8


def test_one_number_per_rollout_against_recorded_tokens(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine, groups=2, size=2)
    flat = make_estimate(sqlite_engine, batch.id, [0.25] * 4)
    plot = build(sqlite_engine, batch, "recorded_vs_recomputed", estimate=flat.id)
    assert meta(plot)["unit"] == "token"
    drawn = [value for trace in plot["data"][1:] for value in trace["y"]]
    assert drawn and set(drawn) == {0.25}


def test_nothing_to_hold_against(sqlite_engine: Engine) -> None:
    batch = four(sqlite_engine, [1.0, -1.0, 0.5, -0.5])
    for name in ("recorded_vs_recomputed", "estimator_agreement"):
        assert meta(build(sqlite_engine, batch, name))["empty"].startswith("no ")


def test_names_say_what_differs_and_no_more() -> None:
    def chosen(**request: Any) -> Chosen:
        spelt = Request.from_dict({"convention": "gae/verl", **request}).to_dict()
        made = Estimate(id="e", estimator="gae", convention="gae/verl", request=spelt, per_token=True)
        return Chosen("gae/verl (recomputed)", made)

    plain, short = chosen(params={"lam": 0.95}), chosen(params={"lam": 0.3})
    recorded = Chosen("recorded advantages", None, "advantages")
    assert told_apart((plain, recorded)) == ["gae/verl", "recorded"]
    assert told_apart((plain, short)) == ["gae/verl λ 0.95", "gae/verl λ 0.3"]
    raw = chosen(params={"lam": 0.3}, whitening={"scope": "none"})
    assert told_apart((short, raw)) == ["gae/verl whitened over the batch", "gae/verl not whitened"]
    assert told_apart((short, chosen(params={"lam": 0.3}, precision="float32"))) == [
        "gae/verl precision float64",
        "gae/verl precision float32",
    ]
    assert told_apart((plain, plain)) == ["gae/verl", "gae/verl"]
