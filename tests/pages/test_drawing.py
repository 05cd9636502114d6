"""Geometry of the server-made pictures."""

import numpy as np
import pytest

from app import drawing, formatting


def test_equal_rewards_stack_and_unscored_ones_are_counted() -> None:
    strip = drawing.dot_strip([1.0, 1.0, 0.0, None, float("nan")], 0.0, 1.0)
    right = [y for x, y in strip.dots if x > 90]
    assert len(strip.dots) == 3 and len(right) == 2 and right[0] > right[1]
    assert strip.unscored == 2
    assert strip.mean == pytest.approx(6 + 2 / 3 * 88, abs=0.1)


def test_many_dots_stay_inside_the_strip() -> None:
    strip = drawing.dot_strip([1.0] * 64, 0.0, 1.0)
    assert min(y for _, y in strip.dots) >= strip.radius
    assert drawing.dot_strip([], 0.0, 1.0).dots == ()
    assert len(drawing.dot_strip([0.5] * 3, 0.5, 0.5).dots) == 3


def test_a_line_keeps_spikes_and_gaps() -> None:
    values = np.zeros(10_000)
    values[4321] = 7.0
    line = drawing.line(values, width=100)
    assert line.high == 7.0 and "L43.1 2" in line.path.replace("L43.2 2", "L43.1 2")
    gap = drawing.line([1.0, None, 2.0])
    assert gap.path.count("M") == 2 and gap.last is not None
    assert drawing.line([None, float("inf")]).path == ""
    flat = drawing.line([3.0, 3.0])
    assert flat.last is not None and flat.last[1] == 16.0


def test_a_reward_stands_on_its_token_alone() -> None:
    drawn = drawing.stems([0.0, 0.0, None, 0.5], 103, 32)
    assert drawn.path == "M101.5 30V2" and (drawn.low, drawn.high, drawn.zero) == (0.0, 0.5, 30.0)
    down = drawing.stems([-1.0, 0.0, 1.0], 103, 32)
    assert down.path == "M1.5 16V30M101.5 16V2"
    assert drawing.stems([0.0, 0.0], 103, 32) == drawing.line([0.0, 0.0], 103, 32)


def test_a_lane_shows_the_strongest_of_each_column_and_masked_stretches_thin() -> None:
    values = np.zeros(1000)
    values[500] = -5.0
    mask = np.ones(1000)
    mask[900:] = 0
    lane = drawing.lane(values, mask, 1000, 1000, 1.0, width=100)
    names = [name for name, _ in lane.paths]
    assert "f0" in names and "f5" in names and drawing.MASKED_CLASS in names
    assert dict(lane.paths)["f0"].startswith("M50 0h1v12")
    assert drawing.lane(0.4, None, 10, 20, 1.0).paths == (("f7", "M0 0h240v12h-240z"),)
    assert drawing.lane(None, None, 10, 10, 1.0).paths[0][0] == drawing.UNKNOWN_CLASS
    assert drawing.lane(None, None, 0, 10, 1.0).paths == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (-4.4e-16, "0"), (float("nan"), "NaN"), (float("-inf"), "−∞"), (0.5, "0.5"),
     (-0.12345, "−0.123"), (1234.5, "1234"), (2.4e-7, "2.4e−7"), (1.0, "1"), (99.96, "100"),
     (12345678.0, "1.23e7")],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert formatting.number(value) == text


def test_words_for_sizes_times_and_shares() -> None:
    assert formatting.size(1536) == "1.5 KiB" and formatting.size(None) == "–"
    assert formatting.duration(0.02) == "20 ms" and formatting.duration(75.0) == "1 min 15 s"
    assert formatting.ago(1000.0, now=1010.0) == "just now" and formatting.ago(0.0, now=7200.0) == "2 h ago"
    assert formatting.ago(0.0, now=86400.0 * 3) == "3 days ago"
    assert formatting.percent(1, 3) == "33 %" and formatting.percent(1, 0) == "–"
    assert formatting.signed(0.5) == "+0.5" and formatting.signed(0.0) == "0"
    assert (
        formatting.plural(1, "group") == "1 group" and formatting.plural(2, "batch", "batches") == "2 batches"
    )
