"""Which panels have a whole row: those wide by themselves, and those that would stand alone in it."""

import re

from tests.sharing.conftest import World


def test_no_panel_leaves_half_a_row_empty(world: World) -> None:
    narrow, wide = "group_rewards", "token_heatmap"
    figures = [narrow, wide, narrow, narrow, narrow]
    panels = [{"figure": name, "batch": world.batch} for name in figures]
    dashboard = world.dashboard(*panels, {"text": "a note"})
    page = world.client.get(f"/dashboards/{dashboard}").text
    classes = re.findall(r'<section class="(panel [^"]*)"', page)
    assert ["panel-wide" in each for each in classes] == [True, True, False, False, True, True]
