"""Share links: what they show, what they never show, and how they end."""

import hashlib
import re
import time
from typing import Any

import pytest
from sqlalchemy import event, select, update
from sqlalchemy.exc import OperationalError

from app import sharing
from app.figures import FIGURES
from app.sharing import GONE
from app.visits import Visits
from storage import batches, dashboards
from storage.database import read, write
from storage.models import IdempotencyKey, Share
from tests.builders import make_estimate
from tests.sharing.conftest import ADVANTAGES, MARK, World

HTML = {"Accept": "text/html"}


def open_link(world: World, token: str, suffix: str = "") -> Any:
    return world.client.get(f"/s/{token}{suffix}", headers={} if suffix else HTML)


def test_a_link_shows_its_dashboard(world: World) -> None:
    made = world.share(world.dashboard(*world.panels(), title="For you"))
    assert made["url"] == f"http://127.0.0.1/s/{made['token']}"
    page = open_link(world, made["token"])
    assert page.status_code == 200 and "For you" in page.text and "a note of ours" in page.text
    kinds = [panel["kind"] for panel in open_link(world, made["token"], ".json").json()["panels"]]
    assert kinds == ["figure", "figure", "group", "rollout", "text"]


def test_headers_of_a_shared_page(world: World) -> None:
    token = world.share(world.dashboard())["token"]
    for answer in (open_link(world, token), open_link(world, token, ".json"), open_link(world, "unknown")):
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Robots-Tag"] == "noindex"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "script-src 'self';" in answer.headers["Content-Security-Policy"]


def test_a_token_has_256_bits_and_only_its_hash_is_stored(world: World) -> None:
    tokens = [world.share(world.dashboard())["token"] for _ in range(3)]
    assert len(set(tokens)) == 3 and all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)
    with read(world.engine) as session:
        stored = set(session.execute(select(Share.token_hash)).scalars())
    assert stored >= {hashlib.sha256(token.encode()).hexdigest() for token in tokens}
    database = b"".join(path.read_bytes() for path in world.settings.data_dir.glob("vantage.db*"))
    assert not any(token.encode() in database for token in tokens)


def test_a_token_is_not_kept_for_a_repeated_request(world: World) -> None:
    url = f"/api/v1/dashboards/{world.dashboard()}/shares"
    key = {"Idempotency-Key": world.batch}
    first, again = (world.client.post(url, json={}, headers=key) for _ in range(2))
    assert first.status_code == 201 and first.headers["Cache-Control"] == "no-store"
    assert again.status_code == 409
    with read(world.engine) as session:
        kept = b"".join(session.execute(select(IdempotencyKey.body)).scalars())
    assert first.json()["token"].encode() not in kept


def test_unknown_expired_and_withdrawn_answer_alike(world: World) -> None:
    dashboard = world.dashboard({"text": "hello"})
    expired, withdrawn, orphan = (
        world.share(dashboard),
        world.share(dashboard),
        world.share(world.dashboard()),
    )
    with write(world.engine) as session:
        session.execute(update(Share).where(Share.id == expired["id"]).values(expires=time.time() - 1))
        dashboards.delete(session, session.get_one(Share, orphan["id"]).dashboard_id)
    assert world.client.delete(f"/api/v1/shares/{withdrawn['id']}").status_code == 204
    tokens = [made["token"] for made in (expired, withdrawn, orphan)]
    tokens += ["A" * 43, "short", "%F0%9F%92%A9", "x" * 5000, world.batch]
    for suffix in ("", ".json"):
        answers = [open_link(world, token, suffix) for token in tokens]
        assert {answer.status_code for answer in answers} == {404}
        assert all(GONE in answer.text for answer in answers)
        # The address that was asked for is in the page; nothing else may differ.
        bodies = {answer.text.replace(token, "T") for answer, token in zip(answers, tokens, strict=True)}
        assert len(bodies) == 1
        names = {frozenset(answer.headers) for answer in answers}
        assert len(names) == 1


def test_withdrawing_works_at_once_and_once(world: World) -> None:
    dashboard = world.dashboard({"text": "hello"})
    kept, gone = world.share(dashboard), world.share(dashboard)
    assert open_link(world, gone["token"]).status_code == 200
    assert world.client.delete(f"/api/v1/shares/{gone['id']}").status_code == 204
    assert open_link(world, gone["token"]).status_code == 404
    assert open_link(world, kept["token"]).status_code == 200
    assert world.client.delete(f"/api/v1/shares/{gone['id']}").status_code == 404
    live = world.client.get(f"/api/v1/dashboards/{dashboard}/shares").json()
    assert [item["id"] for item in live["items"]] == [kept["id"]]


def test_a_link_does_not_outlive_its_dashboard(world: World) -> None:
    dashboard = world.dashboard({"text": "hello"})
    frozen = world.share(dashboard, snapshot=True)
    assert world.client.delete(f"/api/v1/dashboards/{dashboard}").status_code == 204
    assert open_link(world, frozen["token"]).status_code == 404


@pytest.mark.parametrize("hours", [0, -1, 1e9, 8785])
def test_a_life_out_of_bounds_is_refused(world: World, hours: float) -> None:
    url = f"/api/v1/dashboards/{world.dashboard()}/shares"
    answer = world.client.post(url, json={"expires_in_hours": hours})
    assert answer.status_code == 422 and answer.json()["problems"][0]["field"] == "expires_in_hours"


def test_a_link_lives_as_long_as_was_said(world: World) -> None:
    dashboard = world.dashboard()
    world.share(dashboard)
    world.share(dashboard, expires_in_hours=0.5)
    with read(world.engine) as session:
        lives = [share.expires - share.created for share in dashboards.shares(session, dashboard)]
    assert sorted(round(life) for life in lives) == [1800, 168 * 3600]


def test_uses_are_counted(world: World) -> None:
    dashboard = world.dashboard()
    made = world.share(dashboard)
    assert made["last_used_at"] is None and made["uses"] == 0
    open_link(world, made["token"])
    open_link(world, made["token"], ".json")
    (item,) = world.client.get(f"/api/v1/dashboards/{dashboard}/shares").json()["items"]
    assert item["uses"] == 2 and item["last_used_at"] is not None
    assert made["token"] not in str(item)


def test_a_shared_page_names_no_id_and_no_way_elsewhere(world: World) -> None:
    """Whatever is on the dashboard: no id of a batch, an estimate or a dashboard, and no link."""
    panels = [{"figure": name, "batch": world.batch} for name in FIGURES if name != "token_tracks"]
    dashboard = world.dashboard(*world.panels(), *panels)
    token = world.share(dashboard)["token"]
    texts = [open_link(world, token).text, open_link(world, token, ".json").text]
    secrets = [world.batch, world.estimate, dashboard, world.other_batch, "somebody-elses-run"]
    for text in texts:
        assert not [secret for secret in secrets if secret in text]
        assert "/batches/" not in text and "/api/v1" not in text
    assert "href=" in texts[0] and not re.search(r"<a\s[^>]*href", texts[0])
    assert re.search(r'data-src="', texts[0]) is None


@pytest.mark.parametrize(
    "path",
    [
        "/s/{token}/",
        "/s/{token}/export.html",
        "/s/{token}/figures/token_heatmap",
        "/s/{token}/batches/{batch}",
        "/s/",
        "/s",
        "/api/v1/dashboards/{token}",
        "/api/v1/dashboards/{token}/export.html",
        "/api/v1/dashboards/{token}/shares",
        "/api/v1/shares/{token}",
        "/dashboards/{token}",
        "/batches/{token}",
        "/api/v1/batches/{token}",
        "/api/v1/estimates/{token}",
    ],
)
def test_a_token_opens_nothing_else(world: World, path: str) -> None:
    token = world.share(world.dashboard(*world.panels()))["token"]
    answer = world.client.get(path.format(token=token, batch=world.batch))
    assert answer.status_code in (404, 405) or answer.url.path == f"/s/{token}"


def test_parameters_do_not_widen_a_link(world: World) -> None:
    token = world.share(world.dashboard({"text": "only this"}), hide_text=True)["token"]
    plain = open_link(world, token, ".json").json()
    asked = f".json?hide_text=false&batch={world.batch}&estimate={world.estimate}&panels=all&limit=100"
    wider = open_link(world, token, asked).json()
    assert {**wider, "taken": 0} == {**plain, "taken": 0}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_link_is_read_only(world: World, method: str) -> None:
    token = world.share(world.dashboard({"text": "hello"}))["token"]
    assert world.client.request(method, f"/s/{token}", json={}).status_code == 405
    assert open_link(world, token).status_code == 200


@pytest.mark.parametrize("snapshot", [False, True])
def test_hidden_text_is_nowhere(world: World, snapshot: bool) -> None:
    figures = [
        {"figure": name, "batch": world.batch, "options": options} for name, options in every_figure(world)
    ]
    dashboard = world.dashboard(*world.panels(), *figures)
    shown = world.share(dashboard, snapshot=snapshot)["token"]
    hidden = world.share(dashboard, snapshot=snapshot, hide_text=True)["token"]
    for suffix in ("", ".json"):
        assert MARK in open_link(world, shown, suffix).text
        page = open_link(world, hidden, suffix)
        assert page.status_code == 200 and MARK not in page.text
    views = open_link(world, hidden, ".json").json()["panels"]
    assert [view["missing"] for view in views] == [None] * len(views)


def every_figure(world: World) -> list[tuple[str, dict[str, Any]]]:
    """Every figure, whole and (where it can) of one group or rollout."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, figure in FIGURES.items():
        if "rollout" in figure.options:
            found.append((name, {"rollout": 1}))
            continue
        found.append((name, {}))
        if "group" in figure.options:
            found.append((name, {"group": world.group}))
    return found


def test_hidden_text_leaves_the_numbers(world: World) -> None:
    dashboard = world.dashboard(*world.panels())
    token = world.share(dashboard, hide_text=True)["token"]
    heatmap, group, rollout = open_link(world, token, ".json").json()["panels"][1:4]
    assert heatmap["figure"]["data"][0]["z"]
    assert [row["reward"] for row in group["group"]["rows"]] == [1.0, 0.75, 0.5, 0.0]
    assert rollout["rollout"]["reward"] == 0.5 and len(rollout["rollout"]["text"]["buckets"]) == 6


def test_a_snapshot_stays_and_a_live_link_follows(world: World) -> None:
    dashboard = world.dashboard(*world.panels(), title="before")
    frozen, live = world.share(dashboard, snapshot=True)["token"], world.share(dashboard)["token"]
    before = open_link(world, frozen, ".json").json()
    world.client.patch(f"/api/v1/dashboards/{dashboard}", json={"title": "after"})
    with write(world.engine) as session:
        batches.delete(session, world.batch)
    assert open_link(world, frozen, ".json").json() == before
    assert MARK in open_link(world, frozen).text
    after = open_link(world, live, ".json").json()
    assert after["title"] == "after" and "deleted" in after["panels"][0]["missing"]


def test_opening_a_link_writes_nothing_and_draws_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = world.share(world.dashboard(*world.panels()))["token"]
    drawn: list[str] = []
    present = sharing.present

    def counted(*given: Any) -> sharing.SharedView:
        drawn.append("")
        return present(*given)

    monkeypatch.setattr(sharing, "present", counted)
    begun: list[bool] = []

    def begin(connection: Any) -> None:
        begun.append(bool(connection.get_execution_options().get("vantage_read")))

    event.listen(world.engine, "begin", begin)
    try:
        pages = [open_link(world, token) for _ in range(5)]
    finally:
        event.remove(world.engine, "begin", begin)
    assert {page.status_code for page in pages} == {200} and len({page.text for page in pages}) == 1
    assert len(drawn) == 1
    assert begun and all(begun), "each is a reader"


def test_a_view_that_is_kept_follows_the_data(world: World) -> None:
    dashboard = world.dashboard({"figure": "estimator_agreement", "batch": world.batch})
    token = world.share(dashboard)["token"]
    before = open_link(world, token, ".json").json()["panels"]
    assert open_link(world, token, ".json").json()["panels"] == before
    make_estimate(world.engine, world.batch, ADVANTAGES[::-1], convention="rloo/verl", default=False)
    assert open_link(world, token, ".json").json()["panels"] != before


def test_visits_are_written_together_and_wait_while_the_database_is_away(world: World) -> None:
    dashboard = world.dashboard({"text": "hello"})
    link = world.share(dashboard)
    visits = Visits()
    for _ in range(7):
        visits.count(link["id"])

    def away(_connection: Any) -> None:
        raise OperationalError("", {}, Exception("away"))

    event.listen(world.engine, "begin", away)
    try:
        visits.write(world.engine)
    finally:
        event.remove(world.engine, "begin", away)
    assert visits.of(link["id"])[0] == 7
    visits.count(link["id"])
    visits.write(world.engine)
    assert visits.of(link["id"]) == (0, 0.0)
    (item,) = world.client.get(f"/api/v1/dashboards/{dashboard}/shares").json()["items"]
    assert item["uses"] == 8
