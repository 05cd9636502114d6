"""Dashboards, panels and share links."""

import time

import pytest
from sqlalchemy import Engine

from storage import dashboards
from storage.database import read, write
from storage.models import Dashboard, Share

HOUR = 3600.0


def make(engine: Engine, title: str = "d") -> Dashboard:
    with write(engine) as session:
        return dashboards.create(session, title, "note")


def share(engine: Engine, dashboard: Dashboard, token: str = "t" * 64, hours: float = 1.0) -> Share:
    with write(engine) as session:
        return dashboards.create_share(
            session, dashboard.id, token, time.time() + hours * HOUR, hide_text=True
        )


def test_a_dashboard_is_made_changed_and_deleted(engine: Engine) -> None:
    first, second = make(engine, "first"), make(engine, "second")
    with write(engine) as session:
        assert dashboards.revise(session, first.id, title="renamed")
        assert not dashboards.revise(session, "nothing", title="x")
    with read(engine) as session:
        found = dashboards.get(session, first.id)
        assert found is not None
        assert (found.title, found.note, found.updated > first.updated) == ("renamed", "note", True)
        page = dashboards.page(session)
        assert ([d.id for d in page.items], page.total) == ([first.id, second.id], 2)
    with write(engine) as session:
        assert dashboards.delete(session, first.id)
        assert not dashboards.delete(session, first.id)


def test_panels_are_replaced_as_a_whole(engine: Engine) -> None:
    dashboard = make(engine)
    with write(engine) as session:
        a, b = dashboards.replace_panels(
            session,
            dashboard.id,
            [
                {"kind": "figure", "figure": "token_heatmap", "batch_id": "b", "options": {"top": 5}},
                {"kind": "text", "caption": "<script>\x00"},
            ],
        )
    with read(engine) as session:
        found = dashboards.panels(session, dashboard.id)
        assert [(p.id, p.position, p.kind, p.figure) for p in found] == [
            (a.id, 0, "figure", "token_heatmap"), (b.id, 1, "text", None),
        ]  # fmt: skip
        assert (found[0].options, found[1].options, found[1].caption) == ({"top": 5}, {}, "<script>\x00")
    with write(engine) as session:
        new = [{"kind": "group", "id": "chosen"}, {"kind": "text", "id": b.id}, {"kind": "text", "id": b.id}]
        dashboards.replace_panels(session, dashboard.id, new)
    with read(engine) as session:
        group, kept, copy = dashboards.panels(session, dashboard.id)
        assert (kept.id, kept.position) == (b.id, 1)
        assert len({group.id, copy.id, "chosen", b.id}) == 4  # no panel chooses its own id
    with write(engine) as session, pytest.raises(ValueError, match="a panel is one of figure, rollout"):
        dashboards.replace_panels(session, dashboard.id, [{"kind": "html"}])


def test_a_live_link_is_found_by_its_hash(engine: Engine) -> None:
    dashboard = make(engine)
    link = share(engine, dashboard)
    with write(engine) as session:
        dashboards.add_visits(session, {link.id: (2, time.time())})
    with read(engine) as session:
        found = dashboards.share_by_token_hash(session, "t" * 64)
        assert found is not None and found.id == link.id
        assert (found.uses, found.hide_text, found.last_used is not None) == (2, True, True)
        assert [s.id for s in dashboards.shares(session, dashboard.id)] == [link.id]


def test_unknown_expired_and_withdrawn_links_are_alike(engine: Engine) -> None:
    dashboard = make(engine)
    expired, withdrawn = share(engine, dashboard, "e" * 64, hours=-1), share(engine, dashboard, "w" * 64)
    with write(engine) as session:
        assert dashboards.withdraw_share(session, withdrawn.id)
        assert not dashboards.withdraw_share(session, withdrawn.id)
        assert not dashboards.withdraw_share(session, "nothing")
    with read(engine) as session:
        for token in ("e" * 64, "w" * 64, "u" * 64, "\x00", "x" * 1000):
            assert dashboards.share_by_token_hash(session, token) is None
        assert dashboards.shares(session, dashboard.id) == []
        assert dashboards.get_share(session, expired.id) is not None


def test_deleting_a_dashboard_ends_its_links(engine: Engine) -> None:
    dashboard = make(engine)
    link = share(engine, dashboard)
    with write(engine) as session:
        dashboards.replace_panels(session, dashboard.id, [{"kind": "text"}])
        dashboards.delete(session, dashboard.id)
    with read(engine) as session:
        assert dashboards.share_by_token_hash(session, "t" * 64) is None
        assert dashboards.get_share(session, link.id) is None
        assert dashboards.panels(session, dashboard.id) == []
