"""Without tokens the figures draw over the characters of the texts, and say so."""

import numpy as np
from sqlalchemy import Engine

from app.figures.plotly import decode
from tests.builders import make_batch, make_estimate
from tests.figures.test_figures import build

TEXTS = ["abc", "", "äöü ß\nxy", "a"]


def test_text_alone_gives_one_colour_per_response(engine: Engine) -> None:
    batch = make_batch(engine, [[1.0, 0.0], [0.5, 0.0]], columns={"response": TEXTS})
    make_estimate(engine, batch.id, [0.7, -0.7, 0.5, -0.5])
    drawn = build(engine, batch, "token_heatmap")
    grid = decode(drawn["data"][0]["z"])
    assert [int(np.isfinite(row).sum()) for row in grid] == [len(text) for text in TEXTS]
    assert {float(value) for value in grid[2][np.isfinite(grid[2])]} == {0.5}
    assert drawn["layout"]["meta"]["unit"] == "character"
    assert "no tokens are recorded" in drawn["layout"]["meta"]["sentence"]
    assert drawn["layout"]["xaxis"]["title"]["text"] == "character of the response"


def test_length_is_characters_where_no_tokens_are_recorded(engine: Engine) -> None:
    batch = make_batch(engine, [[1.0, 0.0], [0.5, 0.0]], columns={"response": TEXTS})
    drawn = build(engine, batch, "length_advantage", y="reward")
    found = np.sort(np.concatenate([decode(trace["x"]) for trace in drawn["data"]]))
    assert found.tolist() == sorted(len(text) for text in TEXTS)
    assert drawn["layout"]["xaxis"]["title"]["text"] == "response length (characters)"
    assert "characters of the text" in drawn["layout"]["meta"]["sentence"]


def test_tokens_win_over_text(engine: Engine) -> None:
    batch = make_batch(engine, [[1.0, 0.0]], lengths=[2, 5], columns={"response": ["abcdefgh", "i"]})
    make_estimate(engine, batch.id, [0.7, -0.7])
    assert build(engine, batch, "token_heatmap")["layout"]["meta"]["unit"] == "token"
