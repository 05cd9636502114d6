"""Hidden text: not an id, not a part of one, in anything that a link or an export shows."""

import json
import random
import re
import string
from typing import Any

import pytest

from tests.builders import make_batch, make_estimate
from tests.sharing.conftest import ADVANTAGES, REWARDS, World
from tests.sharing.test_shares import every_figure, open_link

PLACEHOLDER = re.compile(r"%\{(customdata|text|hovertext|id|meta)\b")


def secret_batch(world: World, ids: list[str], reason: str) -> World:
    """A world whose batch has these group ids and this finish_reason."""
    count = 2 * len(REWARDS[0])
    arrays: dict[str, Any] = {
        "response_mask": [[1] * 6] * count,
        "old_log_probs": [[-0.5] * 6] * count,
        "rollout_log_probs": [[-0.4] * 6] * count,
        "values": [[0.5] * 6] * count,
        "token_level_rewards": [[0.0] * 5 + [1.0]] * count,
    }
    batch = make_batch(
        world.engine, REWARDS, run="secret", step=1, arrays=arrays, group_ids=ids,
        columns={"finish_reason": [reason] * count},
        fields=dict.fromkeys(("group_id", "reward", *arrays), "recorded"),
    ).id  # fmt: skip
    estimate = make_estimate(world.engine, batch, ADVANTAGES, default=True).id
    return World(world.client, world.engine, world.settings, batch, ids[0], estimate, batch, estimate)


def outputs(world: World) -> list[str]:
    """Page, JSON, the same of a snapshot, and the export of every figure, group and rollout, texts hidden."""
    panels: list[dict[str, Any]] = [
        {"figure": name, "batch": world.batch, "options": options} for name, options in every_figure(world)
    ]
    panels += [
        {"figure": "loss_weights", "batch": world.batch, "options": {"by": by}}
        for by in ("group", "response", "length", "ratio")
    ]
    panels += [{"group": world.group, "batch": world.batch}, {"rollout": 1, "batch": world.batch}]
    dashboard = world.dashboard(*panels, title="t")
    found = []
    for snapshot in (False, True):
        token = world.share(dashboard, snapshot=snapshot, hide_text=True)["token"]
        found += [open_link(world, token, suffix).text for suffix in ("", ".json")]
    export = world.client.get(f"/api/v1/dashboards/{dashboard}/export.html?hide_text=true")
    assert export.status_code == 200
    return [*found, export.text]


def test_no_part_of_a_long_id_is_shown(world: World) -> None:
    source = random.Random(7)
    ids = ["".join(source.choices(string.ascii_lowercase, k=60)) for _ in range(2)]
    texts = outputs(secret_batch(world, ids, "the answer is zebrafish"))
    for text in texts:
        assert not [i[at : at + 6] for i in ids for at in range(55) if i[at : at + 6] in text]
        assert "zebrafish" not in text


@pytest.mark.parametrize("ids", [["a1Z", "q9X"], ["Zq\u00fc", "9§"]])
def test_a_short_id_is_not_shown_either(world: World, ids: list[str]) -> None:
    hidden = secret_batch(world, ids, "stop")
    body = outputs(hidden)[1]
    labels = [text for text in re.findall(r'"((?:[^"\\]|\\.)*)"', body) if any(i in text for i in ids)]
    assert labels == []


def test_known_finish_reasons_stay(world: World) -> None:
    texts = outputs(secret_batch(world, ["g one", "g two"], "length"))
    group = next(panel for panel in json.loads(texts[1])["panels"] if panel["group"])
    assert {row["finish_reason"] for row in group["group"]["rows"]} == {"length"}


def test_no_hover_text_names_data_that_are_not_there(world: World) -> None:
    hidden = secret_batch(world, ["g one", "g two"], "stop")
    panels = json.loads(outputs(hidden)[1])["panels"]
    drawn = [trace for panel in panels if panel["figure"] for trace in panel["figure"]["data"]]
    assert len(drawn) > 20
    for trace in drawn:
        for name in PLACEHOLDER.findall(str(trace.get("hovertemplate", ""))):
            assert trace.get("ids" if name == "id" else name) is not None, trace
