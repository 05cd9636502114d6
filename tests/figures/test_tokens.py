"""The heat map's thinning and the tracks, against plain loops."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Engine

from app.errors import BadRequest, Conflict, NotFound
from app.figures.plotly import decode
from app.figures.token_heatmap import clip_of, thin
from app.figures.token_tracks import level, m4
from storage import arrays
from storage.database import read
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED, estimate_tokens, two_tasks, with_tokens
from tests.figures.test_figures import build


def loop_thin(
    rows: list[NDArray[Any]], masks: list[NDArray[Any]], width: int, height: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same as `thin`, one token at a time."""
    cells = -(-max(len(row) for row in rows) // width)
    grid = np.full((-(-len(rows) // height), cells), np.nan)
    there = np.zeros(grid.shape, dtype=bool)
    for i, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        for t, (value, unmasked) in enumerate(zip(row, mask, strict=True)):
            cell = i // height, t // width
            there[cell] = True
            if unmasked and np.isfinite(value) and not abs(value) <= abs(grid[cell]):
                grid[cell] = value
    return grid, there & np.isnan(grid)


@pytest.mark.parametrize(("columns", "rows"), [(1000, 500), (7, 500), (13, 3), (1, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_thinning_keeps_the_greatest(seed: int, columns: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, 9)
    lengths[0] = 40
    values = [random.normal(size=length).astype(np.float32) for length in lengths]
    masks = [random.random(length) < 0.6 for length in lengths]
    values[0][3] = np.nan
    grid, masked, width, height = thin(
        np.concatenate(values), lengths, np.concatenate(masks), np.arange(9), columns, rows
    )
    expected, expected_masked = loop_thin(values, masks, width, height)
    assert grid.shape[1] <= columns and grid.shape[0] <= rows
    assert np.array_equal(np.abs(grid), np.abs(expected.astype(np.float32)), equal_nan=True)
    assert np.array_equal(masked, expected_masked)


def test_clip_is_p98_of_unmasked_tokens() -> None:
    values = np.concatenate([np.arange(101.0), [1e9, np.nan]])
    mask = np.array([True] * 101 + [False, True])
    assert clip_of(values, mask) == 98.0
    assert (
        clip_of(np.zeros(5), np.ones(5, dtype=bool)) == 1.0
        and clip_of(np.zeros(0), np.ones(0, dtype=bool)) == 1.0
    )
    # A reward divided by ε must not make the rest look like nothing.
    assert clip_of(np.array([0.5, -0.7, 0.9, 0.6, 5e5, 1.5e6]), np.ones(6, dtype=bool)) == pytest.approx(
        0.888
    )
    assert clip_of(np.array([0.0] * 99 + [7.0]), np.ones(100, dtype=bool)) == 7.0


def test_heatmap_of_recorded_tokens(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    plot = build(sqlite_engine, batch, "token_heatmap", estimate="recorded", group="g1")
    with read(sqlite_engine) as session:
        read_values, read_mask = (
            arrays.flat(session, batch.id, name) for name in ("advantages", "response_mask")
        )
    assert read_values is not None and read_mask is not None
    starts = np.concatenate([[0], np.cumsum(read_values[1])])
    grid = decode(plot["data"][0]["z"])
    for row, i in enumerate(range(4, 8)):
        own = slice(starts[i], starts[i + 1])
        expected = np.where(read_mask[0][own] > 0, read_values[0][own], np.nan)
        assert np.array_equal(grid[row, : expected.size], expected.astype(np.float32), equal_nan=True)
        assert np.isnan(grid[row, expected.size :]).all()
    heat = plot["data"][0]
    # The clip is of the step, not of the group that is shown.
    clip = np.quantile(np.abs(read_values[0][read_mask[0] > 0]), 0.98)
    assert heat["zmax"] == -heat["zmin"] == pytest.approx(clip) and heat["zmid"] == 0
    assert heat["y"] == ["#4", "#5", "#6", "#7"] and plot["data"][1]["name"] == "masked"


def test_heatmap_of_one_number_per_rollout(sqlite_engine: Engine) -> None:
    batch = two_tasks(sqlite_engine)
    made = make_estimate(sqlite_engine, batch.id, np.arange(32.0).tolist())
    plot = build(sqlite_engine, batch, "token_heatmap", estimate=made.id)
    grid = decode(plot["data"][0]["z"])
    assert grid.shape == (32, 40) and (grid[1] == 1.0).all() and np.isfinite(grid[31]).sum() == 5


def test_large_heatmap_is_thinned_and_says_so(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine, groups=10, size=4, longest=90)
    plot = build(sqlite_engine, batch, "token_heatmap", columns=20, rows=16)
    meta, heat = plot["layout"]["meta"], plot["data"][0]
    assert (meta["rollouts_per_row"], meta["tokens_per_column"]) == (3, 5)
    assert decode(heat["z"]).shape == (14, 18) and heat["dx"] == 5 and heat["x0"] == 2.0
    assert "greatest |A| of 5 tokens and 3 rollouts" in meta["sentence"]


def test_estimates_of_others_and_unfinished_ones(sqlite_engine: Engine) -> None:
    one, other = two_tasks(sqlite_engine), with_tokens(sqlite_engine)
    made = make_estimate(sqlite_engine, one.id, [0.0] * 32)
    with pytest.raises(NotFound, match="This batch has no estimate"):
        build(sqlite_engine, other, "token_heatmap", estimate=made.id)
    queued = make_estimate(sqlite_engine, one.id, [0.0] * 32, request={"other": 1}, state="queued")
    with pytest.raises(Conflict, match="is queued"):
        build(sqlite_engine, one, "group_advantages", estimate=queued.id)


def test_m4_keeps_extremes_and_ends() -> None:
    values = np.random.default_rng(1).normal(size=10_000)
    values[777], values[5000:5100] = 99.0, np.nan
    kept = m4(values, 2000)
    assert kept.size <= 2000 and kept[0] == 0 and kept[-1] == 9999 and 777 in kept
    assert values[kept[np.isfinite(values[kept])]].min() == np.nanmin(values)
    assert np.array_equal(m4(values, 10_000), np.arange(10_000))


def test_tracks_of_a_rollout(sqlite_engine: Engine) -> None:
    reward, value = [0.0, 0.0, 5.0, 1.0], [0.1, 0.2, 9.0, 0.4]
    fields: dict[str, list[list[float]]] = {
        "token_level_rewards": [reward],
        "values": [value],
        "old_log_probs": [[-1.0, -2.0, -3.0, -4.0]],
        "ref_log_probs": [[-1.5, -2.0, -2.0, -4.0]],
        "rollout_log_probs": [[-1.0, -2.5, -9.0, -4.1]],
        "response_mask": [[1, 1, 0, 1]],
        "advantages": [[0.5, 0.25, 7.0, -1.0]],
    }
    batch = make_batch(
        sqlite_engine, [[1.0]], arrays=fields, fields=RECORDED | {n: "recorded" for n in fields}
    )
    plot = build(sqlite_engine, batch, "token_tracks")
    by_name = {trace["name"]: trace for trace in plot["data"]}
    assert list(by_name) == [
        "reward", "value", "TD error", "advantage", "log p", "log p − ref", "log ratio", "mask"
    ]  # fmt: skip
    # δ over unmasked tokens 0, 1, 3 with γ = 1: 0.2 − 0.1, 0.4 − 0.2, 1 − 0.4.
    assert decode(by_name["TD error"]["y"]) == pytest.approx([0.1, 0.2, np.nan, 0.6], nan_ok=True)
    assert decode(by_name["log p − ref"]["y"]).tolist() == [0.5, 0.0, -1.0, 0.0]
    assert decode(by_name["log ratio"]["y"]) == pytest.approx([0.0, 0.5, 6.0, 0.1])
    assert "ratio π_old / π_rollout outside [0.8, 1.2] on 1 of 3 tokens" in plot["layout"]["meta"]["sentence"]
    assert decode(by_name["advantage"]["y"]) == pytest.approx([0.5, 0.25, np.nan, -1.0], nan_ok=True)
    # Stems stand where reward is.
    assert decode(by_name["reward"]["x"]).tolist() == [2, 3] and by_name["reward"]["type"] == "bar"
    assert plot["layout"]["meta"]["missing"] == ["returns", "entropies"]
    assert "Not in the batch: returns, entropies." in plot["layout"]["meta"]["sentence"]
    assert {trace["yaxis"] for trace in plot["data"]} == {"y", *(f"y{i}" for i in range(2, 9))}


def test_rounding_is_drawn_as_a_level_line(sqlite_engine: Engine) -> None:
    base = np.array([-0.3, -2.7, -11.1, -0.01])
    fields = {
        "old_log_probs": [base],
        "rollout_log_probs": [(base - 1.1).astype(np.float32)],
        "values": [[0.1, 0.2, 0.3, 0.4]],
    }
    batch = make_batch(sqlite_engine, [[1.0]], arrays=fields, fields=RECORDED)
    plot = build(sqlite_engine, batch, "token_tracks")
    axes = {one["name"]: plot["layout"]["yaxis" + one["yaxis"][1:]] for one in plot["data"]}
    assert axes["log ratio"]["range"] == pytest.approx([0.55, 1.65], rel=1e-5)
    assert "range" not in axes["value"]
    assert level(np.array([np.nan, 5.0])) == level(np.array([])) == level(np.zeros(3)) == {}


def test_tracks_follow_the_estimate(sqlite_engine: Engine) -> None:
    batch = with_tokens(sqlite_engine)
    made = estimate_tokens(sqlite_engine, batch)
    plot = build(sqlite_engine, batch, "token_tracks", rollout=5, estimate=made.id)
    assert "gae/verl (recomputed; γ 0.5, λ 0.9)" in plot["layout"]["meta"]["sentence"]
    recorded = build(sqlite_engine, batch, "token_tracks", rollout=5, estimate="recorded")
    one, two = (
        decode(next(trace for trace in each["data"] if trace["name"] == "advantage")["y"])
        for each in (recorded, plot)
    )
    assert two == pytest.approx(2 * one, nan_ok=True)


def test_long_tracks_are_thinned(sqlite_engine: Engine) -> None:
    values = np.random.default_rng(0).normal(size=9000)
    batch = make_batch(sqlite_engine, [[1.0]], arrays={"values": [values]}, fields=RECORDED)
    plot = build(sqlite_engine, batch, "token_tracks")
    assert decode(plot["data"][0]["y"]).size <= 2000 and plot["layout"]["meta"]["thinned"] is True
    part = build(sqlite_engine, batch, "token_tracks", start=100, end=200)
    assert decode(part["data"][0]["y"]) == pytest.approx(values[100:200])
    assert "tokens 100 to 199 of 9\u202f000" in part["layout"]["meta"]["sentence"]
    for options in ({"start": 9000}, {"start": 5, "end": 5}):
        with pytest.raises(BadRequest, match="counted from 0"):
            build(sqlite_engine, batch, "token_tracks", **options)
    with pytest.raises(NotFound, match="has no rollout 7"):
        build(sqlite_engine, batch, "token_tracks", rollout=7)
