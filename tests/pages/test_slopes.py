"""The picture of whitening scopes beside a group: its numbers are the figures', its lines the group's."""

import numpy as np
import pytest
from sqlalchemy import Engine

from app.figures.chosen import choose
from app.pages.slopes import HEIGHT, MARGIN, MOST_OWN, Slopes, slopes
from storage.database import read
from storage.models import Batch
from tests.builders import make_batch
from tests.figures.batches import five, stepped, two_tasks, with_tokens
from tests.figures.test_figures import build
from tests.pages.conftest import Site


def drawn(engine: Engine, batch: Batch, members: list[int]) -> Slopes:
    with read(engine) as session:
        return slopes(session, batch, choose(session, batch, None), members)


def test_five_rewards_by_hand(sqlite_engine: Engine) -> None:
    found = drawn(sqlite_engine, five(sqlite_engine), [0, 1, 2, 3, 4])
    step = found.step
    assert [stop.label for stop in step.stops] == ["raw − mean", "÷ group σ", "batch"]
    # Rewards 1, 0.6, 0.2, 0, 0.7 around 0.5, then over 0.4.
    assert step.values[0] == pytest.approx([0.5, 0.1, -0.3, -0.5, 0.2])
    assert step.values[2] == pytest.approx([1.25, 0.25, -0.75, -1.25, 0.5], abs=1e-7)
    assert [stop.limit for stop in step.stops] == pytest.approx([0.5, 1.25, 1.25], abs=1e-7)
    # Greater is higher, the largest of all touches the edge, zero is in the middle.
    assert step.places[:, 0] == pytest.approx([MARGIN] * 3) and step.places[0, 3] == HEIGHT - MARGIN
    assert [own.index for own in found.own] == [0, 1, 2, 3, 4] and found.of == 5
    assert found.own[0].told == "raw − mean +0.5, ÷ group σ +1.25, batch +1.25"


def test_counts_are_those_of_the_figure(sqlite_engine: Engine) -> None:
    for batch in (five(sqlite_engine), two_tasks(sqlite_engine), with_tokens(sqlite_engine)):
        meta = build(sqlite_engine, batch, "sign_flips")["layout"]["meta"]
        found = drawn(sqlite_engine, batch, [0, 1, 2, 3])
        assert [[cell.count for cell in row] for row in found.step.matrix] == meta["counts"]
        turned = {*meta["rollouts"][0][2], *meta["rollouts"][2][0]}
        assert {own.index for own in found.own if own.flips} == turned & {0, 1, 2, 3}
        assert found.changed == len(turned & {0, 1, 2, 3})


def test_earlier_steps_are_of_no_concern(sqlite_engine: Engine) -> None:
    *_, last = stepped(sqlite_engine, [[[1.0, 0.0]]] * 3)
    assert len(drawn(sqlite_engine, last, [0]).step.stops) == 3


def test_without_rewards_there_is_a_reason(sqlite_engine: Engine) -> None:
    batch = make_batch(sqlite_engine, [[None, None]])
    found = drawn(sqlite_engine, batch, [0, 1])
    assert found.step.why is not None and found.own == ()


def test_lines_of_a_large_group_stay_few(sqlite_engine: Engine) -> None:
    rewards = np.random.default_rng(3).normal(size=500).tolist()
    batch = make_batch(sqlite_engine, [rewards])
    found = drawn(sqlite_engine, batch, list(range(500)))
    assert len(found.own) == MOST_OWN and found.of == 500
    assert found.step.keeps.count("M") + found.step.flips.count("M") <= 300
    assert "drawn" in found.step.sentence


def test_the_page_leads_to_the_rollouts_of_a_cell(site: Site) -> None:
    batch = site.batches["two-tasks"]
    html = site.page(f"/batches/{batch}/groups/0")
    assert '<svg class="slopes"' in html and f'href="/batches/{batch}/whitening?cell=' in html
    shown = site.data(f"/batches/{batch}/groups/0.json")["slopes"]
    cell = next(each for row in shown["step"]["matrix"] for each in row if each["count"])
    listed = site.data(f"/batches/{batch}/whitening.json?cell={cell['key']}")["listed"]
    assert len(listed) == cell["count"]
