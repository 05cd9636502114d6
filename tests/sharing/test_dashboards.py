"""Dashboards over REST: what is pinned comes back, what cannot be shown is refused in words."""

from typing import Any

import pytest
from sqlalchemy import update

from storage import batches
from storage.database import write
from storage.models import Panel, TokenArray
from tests.sharing.conftest import World


def test_what_is_pinned_comes_back(world: World) -> None:
    panels: list[dict[str, Any]] = [
        {"figure": "token_heatmap", "batch": world.batch, "estimate": world.estimate, "options": {"rows": 5}},
        {"group": world.group, "batch": world.batch},
        {"rollout": 1, "batch": world.batch, "caption": "look"},
        {"text": "a note"},
    ]
    dashboard = world.dashboard(*panels, title="Step 3", note="why")
    body = world.client.get(f"/api/v1/dashboards/{dashboard}").json()
    assert (body["title"], body["note"]) == ("Step 3", "why")
    for given, kept in zip(panels, body["panels"], strict=True):
        assert {name: kept[name] for name in given} == given
    listed = world.client.get("/api/v1/dashboards").json()
    assert listed["items"][0]["id"] == dashboard and listed["total"] >= 1


def test_what_comes_back_can_be_sent_again(world: World) -> None:
    dashboard = world.dashboard(*world.panels())
    url = f"/api/v1/dashboards/{dashboard}"
    before = world.client.get(url).json()["panels"]
    backwards = [{name: panel[name] for name in panel if name != "id"} for panel in reversed(before)]
    after = world.client.patch(url, json={"panels": backwards}).json()["panels"]
    assert [{**panel, "id": ""} for panel in after] == [{**panel, "id": ""} for panel in reversed(before)]


def test_a_change_leaves_the_rest_alone(world: World) -> None:
    dashboard = world.dashboard({"text": "kept"}, title="old", note="kept too")
    answer = world.client.patch(f"/api/v1/dashboards/{dashboard}", json={"title": "new"})
    body = answer.json()
    assert answer.status_code == 200
    assert (body["title"], body["note"], body["panels"][0]["text"]) == ("new", "kept too", "kept")


def test_a_change_of_something_older_is_refused(world: World) -> None:
    url = f"/api/v1/dashboards/{world.dashboard()}"
    tag = world.client.get(url).headers["ETag"]
    assert world.client.patch(url, json={"title": "b"}, headers={"If-Match": tag}).status_code == 200
    late = world.client.patch(url, json={"title": "c"}, headers={"If-Match": tag})
    assert late.status_code == 412 and "Read it again" in late.json()["detail"]
    assert world.client.get(url).json()["title"] == "b"


def test_deleted_is_gone(world: World) -> None:
    url = f"/api/v1/dashboards/{world.dashboard()}"
    assert world.client.delete(url).status_code == 204
    assert [
        world.client.request(method, url, json={}).status_code for method in ("GET", "PATCH", "DELETE")
    ] == [
        404,
        404,
        404,
    ]


@pytest.mark.parametrize(
    ("panel", "field", "words"),
    [
        ({}, "panels.0", "names none of them"),
        ({"text": "a", "rollout": 1}, "panels.0", "rollout and text"),
        ({"figure": "pie", "batch": "B"}, "panels.0.figure", "no figure 'pie'"),
        ({"figure": "group_rewards"}, "panels.0.batch", "Name the batch"),
        ({"figure": "group_rewards", "batch": "nope"}, "panels.0.batch", "no batch 'nope'"),
        ({"figure": "group_rewards", "batch": "B", "estimate": "E"}, "panels.0.estimate", "one of its own"),
        ({"figure": "group_rewards", "batch": "B", "options": {"x": 1}}, "panels.0.options", "no option 'x'"),
        ({"rollout": 99, "batch": "B"}, "panels.0.rollout", "counted from 0"),
        ({"rollout": -1, "batch": "B"}, "panels.0.rollout", "greater than or equal to 0"),
        ({"group": "zz", "batch": "B"}, "panels.0.group", "no group 'zz'"),
        ({"text": "a", "colour": "red"}, "panels.0.colour", "not permitted"),
        ({"text": "a", "options": {"x": [1]}}, "panels.0.options", "valid"),
    ],
)
def test_what_cannot_be_shown_is_refused(world: World, panel: dict[str, Any], field: str, words: str) -> None:
    ids = {"B": world.batch, "E": world.other_estimate}
    panel = {
        name: ids.get(value, value) if isinstance(value, str) else value for name, value in panel.items()
    }
    before = world.client.get("/api/v1/dashboards").json()["total"]
    answer = world.client.post("/api/v1/dashboards", json={"title": "t", "panels": [panel]})
    assert answer.status_code == 422, answer.text
    problem = answer.json()["problems"][0]
    assert problem["field"].startswith(field) and words in problem["message"]
    assert world.client.get("/api/v1/dashboards").json()["total"] == before


def test_every_panel_at_fault_is_named(world: World) -> None:
    panels = [{"text": "fine"}, {"rollout": 1}, {"group": "g"}]
    answer = world.client.post("/api/v1/dashboards", json={"title": "t", "panels": panels})
    assert [problem["field"] for problem in answer.json()["problems"]] == ["panels.1.batch", "panels.2.batch"]


def test_a_page_with_a_deleted_batch_still_opens(world: World) -> None:
    dashboard = world.dashboard(*world.panels())
    with write(world.engine) as session:
        batches.delete(session, world.batch)
    page = world.client.get(f"/dashboards/{dashboard}", headers={"Accept": "text/html"})
    assert page.status_code == 200 and page.text.count("The batch of this panel was deleted.") == 4
    assert "a note of ours" in page.text


def test_one_panel_that_fails_leaves_the_others(world: World) -> None:
    dashboard = world.dashboard(*world.panels())
    with write(world.engine) as session:
        session.execute(update(TokenArray).where(TokenArray.batch_id == world.batch).values(checksum=1))
        session.execute(update(Panel).where(Panel.figure == "group_rewards").values(figure="gone"))
    views = world.client.get(f"/dashboards/{dashboard}.json").json()["panels"]
    assert [bool(view["missing"]) for view in views] == [True, True, False, True, False]
    assert "no such figure" in views[0]["missing"] and "checksum" in views[3]["missing"]


def test_pages_and_their_json(world: World) -> None:
    dashboard = world.dashboard(*world.panels(), title="<b>mine</b>")
    for path in ("/dashboards", f"/dashboards/{dashboard}"):
        page = world.client.get(path)
        assert (
            page.status_code == 200 and "&lt;b&gt;mine&lt;/b&gt;" in page.text and "<b>mine" not in page.text
        )
        assert world.client.get(f"{path}.json").status_code == 200
