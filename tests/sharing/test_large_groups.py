"""A panel of a group with very many responses: a table of the best, and how many there are."""

import pytest
from sqlalchemy import Engine

from app.figures.chosen import choose
from app.panel_views import MOST_ROWS, GroupView, view
from app.templating import environment
from storage.database import read
from storage.models import Panel
from tests.builders import make_batch, make_estimate
from tests.figures.batches import RECORDED


@pytest.mark.parametrize("source", ["estimate", "token", "rollout"])
def test_a_table_of_the_best_says_of_how_many(engine: Engine, source: str) -> None:
    count = MOST_ROWS + 6
    rewards: list[float | None] = [float(i % 50) for i in range(count)]
    rewards[3] = None
    advantages = [0.5 * i for i in range(count)]
    kinds = {"token": {"advantages": "recorded"}, "rollout": {"advantage": "recorded"}}
    batch = make_batch(
        engine,
        [rewards],
        arrays={"advantages": [[value, value] for value in advantages]} if source == "token" else None,
        columns={"advantage": advantages} if source == "rollout" else None,
        fields=RECORDED | kinds.get(source, {}),
    )
    if source == "estimate":
        make_estimate(engine, batch.id, advantages)
    panel = Panel(kind="group", batch_id=batch.id, estimate_id=None, options={"group": "g0"}, caption="")
    with read(engine) as session:
        assert choose(session, batch, None).why is None
        shown = view(session, panel).group
    assert isinstance(shown, GroupView) and shown.size == count and len(shown.rows) == MOST_ROWS
    order = [(row.reward, row.index) for row in shown.rows if row.reward is not None]
    assert order == sorted(order, key=lambda pair: (-pair[0], pair[1])) and len(order) == MOST_ROWS
    assert all(row.advantage == 0.5 * row.index for row in shown.rows)
    said = (
        environment()
        .from_string('{% from "parts/panel.html" import group %}{{ group(view) }}')
        .render(view={"group": shown, "title": "t"})
    )
    assert f"The {MOST_ROWS} of highest reward, of {count} responses." in said
