"""Whitening scopes, sign flips and task offsets of the built-in examples: numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from app.errors import BadRequest
from app.figures.offsets import task_offsets
from app.figures.palette import LIGHT
from app.figures.plotly import decode
from app.figures.whitening_scopes import MOST
from app.running import moments_key as stored_key
from estimators import Request
from storage import estimates
from storage.database import read, write
from storage.estimates import moments_key
from storage.models import Batch
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED, estimate_tokens, five, stepped, two_tasks, with_tokens
from tests.figures.test_figures import build


def lines(plot: dict[str, Any]) -> dict[int, list[float]]:
    """Rollout -> its values along the scopes."""
    found: dict[int, list[float]] = {}
    for trace in plot["data"]:
        given = trace["customdata"]
        linked = isinstance(given, list) and isinstance(given[0], list)
        owners = [int(each[0]) for each in given] if linked else decode(given).astype(int).tolist()
        for owner, x, y in zip(owners, decode(trace["x"]), decode(trace["y"]), strict=True):
            if not np.isnan(x):
                found.setdefault(owner, []).append(float(y))
    return found


def scopes(plot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["scope"]: each for each in plot["layout"]["meta"]["scopes"]}


def test_five_rewards_whitened_over_the_batch(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, five(sqlite_engine), "whitening_scopes")
    assert list(scopes(plot)) == ["none", "group", "batch"]
    # (r − 0.5) / 0.4: 1.25, 0.25, −0.75, −1.25, 0.5.
    expected = {0: 1.25, 1: 0.25, 2: -0.75, 3: -1.25, 4: 0.5}
    for index, (raw, group, batch) in lines(plot).items():
        assert raw == [1.0, 0.6, 0.2, 0.0, 0.7][index]
        assert group == batch == pytest.approx(expected[index], abs=1e-7)
    # Raw 0.2 becomes −0.75; raw 0 has no sign to change.
    last = plot["data"][-1]
    assert last["line"]["color"] == LIGHT["flip"] and {each[0] for each in last["customdata"]} == {2}
    assert (
        plot["layout"]["meta"]["flipped"] == 1
        and "1 of 5 rollouts (20 %)" in plot["layout"]["meta"]["sentence"]
    )
    assert "ddof 1, eps 1e-08 under the root" in plot["layout"]["meta"]["sentence"]


def test_five_rewards_sign_matrix(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, five(sqlite_engine), "sign_flips", **{"from": "none"})
    assert plot["layout"]["meta"]["counts"] == [[0, 0, 0], [1, 0, 0], [1, 0, 3]]
    assert plot["data"][0]["customdata"] == [[[], [], []], [[3], [], []], [[2], [], [0, 1, 4]]]
    assert plot["data"][0]["z"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert [note["text"] for note in plot["layout"]["annotations"]][6] == "<b>1</b>"


def test_two_tasks_under_the_batch(sqlite_engine: Engine) -> None:
    batch = two_tasks(sqlite_engine)
    plot = build(sqlite_engine, batch, "sign_flips")
    # Every 0.25 of recall beats its group (0.21875) and not the batch (0.359375).
    assert plot["layout"]["meta"]["counts"] == [[10, 0, 0], [0, 0, 0], [14, 0, 8]]
    said = scopes(build(sqlite_engine, batch, "whitening_scopes"))
    assert said["none"]["mean"] == pytest.approx(0.359375)
    # Σ(r − 0.359375)² = 8·0.640625² + 8·0.359375² + 14·0.109375² + 2·0.359375² = 4.7421875
    assert said["none"]["std"] == pytest.approx((4.7421875 / 31) ** 0.5)
    assert (said["batch"]["negative"], said["group"]["negative"], said["data_source"]["negative"]) == (
        24,
        10,
        10,
    )
    assert abs(said["batch"]["mean"]) < 1e-12 and said["batch"]["std"] == pytest.approx(1.0, abs=1e-6)


def test_task_offsets_of_two_tasks(sqlite_engine: Engine) -> None:
    batch = two_tasks(sqlite_engine)
    with read(sqlite_engine) as session:
        table = task_offsets(session, batch)
        own = task_offsets(session, batch, {"scope": "data_source"})
        by_token = task_offsets(session, batch, {"unit": "token"})
        with pytest.raises(BadRequest, match="has no option 'colour'"):
            task_offsets(session, batch, {"colour": "red"})
    proof, recall = table.rows
    std = (4.7421875 / 31) ** 0.5
    assert (recall.data_source, recall.n, recall.mean_raw) == ("recall", 16, 0.21875)
    assert recall.mean_whitened == pytest.approx((0.21875 - 0.359375) / std, abs=1e-6)
    assert (recall.positive, recall.negative, recall.one_sign, recall.both_in_group) == (
        0.0,
        1.0,
        "negative",
        True,
    )
    assert (proof.positive, proof.negative, proof.one_sign) == (0.5, 0.5, None)
    assert [row.one_sign for row in own.rows] == [None, None]
    # Tokens: (8·40·1 + 14·5·0.25) / (8·40 + 8·4 + 16·5) = 337.5/432, above all of recall.
    assert "by token" in by_token.sentence
    assert by_token.rows[1].one_sign == "negative" and by_token.rows[0].positive == 0.5


def test_token_weighted_mean_of_two_tasks(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, two_tasks(sqlite_engine), "whitening_scopes", unit="token", source="reward")
    lengths = np.array(([40] * 4 + [4] * 4 + [5] * 8) * 2, dtype=float)
    rewards = np.array(([1.0] * 4 + [0.0] * 4 + [0.25] * 7 + [0.0]) * 2)
    mean = (lengths * rewards).sum() / lengths.sum()
    assert mean == pytest.approx(337.5 / 432)
    std = ((lengths * (rewards - mean) ** 2).sum() / (lengths.sum() - 1)) ** 0.5
    found = lines(plot)
    place = list(scopes(plot)).index("batch")
    assert [found[i][place] for i in range(32)] == pytest.approx(((rewards - mean) / std).tolist(), abs=1e-6)


def test_estimates_are_whitened_with_their_own_setting(sqlite_engine: Engine) -> None:
    batch = two_tasks(sqlite_engine)
    raw = np.linspace(-1.0, 3.0, 32)
    whitening = {"scope": "batch", "unit": "response", "ddof": 0, "eps": 0.5, "eps_placement": "added"}
    asked = {"convention": None, "estimator": "td_error", "params": {}, "whitening": whitening}
    made = make_estimate(sqlite_engine, batch.id, raw.tolist(), request=asked, raw_m2=[0.0] * 32)
    plot = build(sqlite_engine, batch, "whitening_scopes", estimate=made.id, source="advantage")
    place = list(scopes(plot)).index("batch")
    expected = (raw - raw.mean()) / (raw.std() + 0.5)
    assert [lines(plot)[i][place] for i in range(32)] == pytest.approx(expected.tolist(), abs=1e-9)
    assert "ddof 0, eps 0.5 added to the std" in plot["layout"]["meta"]["sentence"]


def test_running_scope_of_rewards_uses_earlier_steps(sqlite_engine: Engine) -> None:
    first, second = stepped(sqlite_engine, [[[0.0, 0.0, 1.0, 1.0]], [[1.0, 1.0, 1.0, 0.0]]])
    said = build(sqlite_engine, first, "whitening_scopes")["layout"]["meta"]["absent"]
    assert said["running"] == "the run has no earlier step with moments of rewards"
    plot = build(sqlite_engine, second, "whitening_scopes")
    # Both steps together: five of eight are 1; Σ(r − 0.625)² = 1.875.
    std = (1.875 / 7) ** 0.5
    place = list(scopes(plot)).index("running")
    assert [lines(plot)[i][place] for i in range(4)] == pytest.approx(
        [0.375 / std] * 3 + [-0.625 / std], abs=1e-6
    )
    assert "1 earlier steps" in plot["layout"]["xaxis"]["ticktext"][place]


def test_running_scope_of_an_estimate_uses_its_moments(sqlite_engine: Engine) -> None:
    first = make_batch(sqlite_engine, [[0.0, 1.0]], step=1, fields=RECORDED)
    second = make_batch(sqlite_engine, [[0.0, 1.0]], step=2, fields=RECORDED)
    request = Request.from_dict({"convention": "dr_grpo/verl"})
    made = make_estimate(sqlite_engine, second.id, [-1.0, 1.0], request=request.to_dict(), raw_m2=[0.0, 0.0])
    with write(sqlite_engine) as session:
        estimates.put_moments(session, first.id, stored_key(request), {"response": (2, 4.0, 2.0)})
    plot = build(sqlite_engine, second, "whitening_scopes", estimate=made.id, source="advantage")
    place = list(scopes(plot)).index("running")
    # Two values with mean 4 and squares 2, two with mean 0 and squares 2: mean 2, squares 4 + 2²·4 = 20.
    std = (20 / 3) ** 0.5
    assert [lines(plot)[i][place] for i in range(2)] == pytest.approx([-3 / std, -1 / std], abs=1e-6)


@pytest.mark.parametrize("convention", ["grpo/verl", "gae/verl", "dr_grpo/trl"])
def test_moments_are_found_under_the_key_they_are_stored_under(convention: str) -> None:
    request = Request.from_dict({"convention": convention})
    assert moments_key(request.to_dict()) == stored_key(request)


def test_token_estimates_whiten_their_raw_advantages(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    made = estimate_tokens(sqlite_engine, batch)
    plot = build(sqlite_engine, batch, "whitening_scopes", estimate=made.id)
    assert "advantages before whitening of gae/verl" in plot["layout"]["meta"]["sentence"]
    assert (plot["layout"]["meta"]["from"], plot["layout"]["meta"]["to"]) == ("none", "batch")
    assert build(sqlite_engine, batch, "whitening_scopes")["layout"]["meta"]["scopes"][0]["n"] == 16


def large(engine: Engine) -> Batch:
    """A thousand rollouts of which 500 change sign between group and batch."""
    easy, hard = [0.9, 0.7] * 5, [0.3, 0.1] * 5
    return make_batch(engine, [easy, hard] * 50, fields=RECORDED)


def test_many_rollouts_are_sampled_and_it_is_said(sqlite_engine: Engine) -> None:
    plot = build(sqlite_engine, large(sqlite_engine), "whitening_scopes")
    meta = plot["layout"]["meta"]
    assert (meta["n"], meta["flipped"]) == (1000, 500)
    drawn = [len(decode(trace["x"])) // 4 if isinstance(trace["x"], dict) else 0 for trace in plot["data"]]
    assert drawn[1] == MOST and sum(drawn) == meta["shown"] <= MOST + MOST // 4
    assert f"{meta['shown']} drawn, {MOST} of them sign-changing" in meta["sentence"]


def test_scopes_that_are_not_there_are_said(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[1.0], [0.0], [0.5]], fields={"group_id": "derived:alone"}, step=None)
    plot = build(sqlite_engine, batch, "whitening_scopes")
    assert plot["layout"]["meta"]["absent"] == {
        "group": "the batch has no prompt groups",
        "data_source": "no values recorded: data_source",
        "running": "the batch has no step",
    }
    flips = build(sqlite_engine, batch, "sign_flips", **{"from": "group"})
    assert flips["layout"]["meta"]["empty"] == "no group scope: the batch has no prompt groups."
    with read(sqlite_engine) as session:
        assert task_offsets(session, batch).empty == "no values recorded: data_source."
