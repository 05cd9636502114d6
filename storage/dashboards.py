"""Dashboards, their panels, and the links that share them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, update

from storage.database import AnySession, WriteSession
from storage.ids import new_id
from storage.models import Dashboard, Panel, Share
from storage.pages import Page, Sort, paginate

KINDS = ("figure", "rollout", "group", "text")


@dataclass(frozen=True, slots=True)
class Link:
    """A live link in a list. Times are Unix seconds; `snapshot`: it shows the panels as they were."""

    id: str
    created: float
    expires: float
    last_used: float | None
    uses: int
    hide_text: bool
    snapshot: bool


def create(session: WriteSession, title: str, note: str = "") -> Dashboard:
    now = time.time()
    dashboard = Dashboard(id=new_id(), title=title, note=note, created=now, updated=now)
    session.add(dashboard)
    session.flush()
    return dashboard


def get(session: AnySession, dashboard_id: str, *, lock: bool = False) -> Dashboard | None:
    """`lock` keeps other writers from changing it until the transaction ends."""
    return session.get(Dashboard, dashboard_id, with_for_update=lock or None)


def page(session: AnySession, limit: int = 50, cursor: str | None = None) -> Page[Dashboard]:
    """Dashboards, the one changed last first."""
    sort = Sort("-updated", Dashboard.updated, Dashboard.id, True)
    rows, following = paginate(session, select(Dashboard), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(Dashboard)).scalar_one()
    return Page([row.Dashboard for row in rows], following, total)


def revise(
    session: WriteSession, dashboard_id: str, *, title: str | None = None, note: str | None = None
) -> bool:
    """Change title or note; None leaves it. False where there is no such dashboard."""
    given = {"title": title, "note": note, "updated": time.time()}
    values = {name: value for name, value in given.items() if value is not None}
    changed = update(Dashboard).where(Dashboard.id == dashboard_id).values(**values).returning(Dashboard.id)
    return session.execute(changed).first() is not None


def delete(session: WriteSession, dashboard_id: str) -> bool:
    """Delete a dashboard with its panels and shares. False where there is none."""
    gone = delete_from(Dashboard).where(Dashboard.id == dashboard_id).returning(Dashboard.id)
    return session.execute(gone).first() is not None


def panels(session: AnySession, dashboard_id: str) -> list[Panel]:
    """The panels in their order."""
    statement = select(Panel).where(Panel.dashboard_id == dashboard_id).order_by(Panel.position)
    return list(session.execute(statement).scalars())


def replace_panels(session: WriteSession, dashboard_id: str, new: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Set all panels, in order: `kind`, and `figure`, `batch_id`, `estimate_id`, `options`, `caption`.

    A panel with the `id` of one that was there keeps it.
    """
    old = {panel.id for panel in panels(session, dashboard_id)}
    session.execute(delete_from(Panel).where(Panel.dashboard_id == dashboard_id))
    session.expire_all()
    rows = []
    for position, panel in enumerate(new):
        if panel["kind"] not in KINDS:
            raise ValueError(f"a panel is one of {', '.join(KINDS)}, not {panel['kind']!r}")
        kept = panel.get("id") if panel.get("id") in old else None
        rows.append(_panel(kept or new_id(), dashboard_id, position, panel))
        old.discard(rows[-1].id)
    session.add_all(rows)
    session.flush()
    revise(session, dashboard_id)
    return rows


def create_share(
    session: WriteSession,
    dashboard_id: str,
    token_hash: str,
    expires: float,
    *,
    hide_text: bool = False,
    snapshot: bytes | None = None,
) -> Share:
    """A link to the dashboard until `expires` (Unix seconds)."""
    share = Share(
        id=new_id(), dashboard_id=dashboard_id, token_hash=token_hash, created=time.time(), expires=expires,
        hide_text=hide_text, snapshot=snapshot,
    )  # fmt: skip
    session.add(share)
    session.flush()
    return share


def get_share(session: AnySession, share_id: str) -> Share | None:
    return session.get(Share, share_id)


def shares(session: AnySession, dashboard_id: str, now: float | None = None) -> list[Share]:
    """The live links of a dashboard, newest first."""
    statement = select(Share).where(Share.dashboard_id == dashboard_id, *_live(now))
    return list(session.execute(statement.order_by(Share.created.desc(), Share.id)).scalars())


def links(session: AnySession, dashboard_id: str, now: float | None = None) -> list[Link]:
    """The live links of a dashboard as `shares`, without reading their snapshots."""
    statement = select(
        Share.id, Share.created, Share.expires, Share.last_used, Share.uses, Share.hide_text,
        Share.snapshot.is_not(None),
    ).where(Share.dashboard_id == dashboard_id, *_live(now))  # fmt: skip
    return [Link(*row) for row in session.execute(statement.order_by(Share.created.desc(), Share.id))]


def counts(session: AnySession, ids: Sequence[str], now: float | None = None) -> dict[str, tuple[int, int]]:
    """How many panels and live links each of the dashboards has."""
    of_panels = select(Panel.dashboard_id, func.count()).where(Panel.dashboard_id.in_(ids))
    of_links = select(Share.dashboard_id, func.count()).where(Share.dashboard_id.in_(ids), *_live(now))
    panels_of = {row[0]: row[1] for row in session.execute(of_panels.group_by(Panel.dashboard_id))}
    links_of = {row[0]: row[1] for row in session.execute(of_links.group_by(Share.dashboard_id))}
    return {id: (panels_of.get(id, 0), links_of.get(id, 0)) for id in ids}


def share_by_token_hash(session: AnySession, token_hash: str, now: float | None = None) -> Share | None:
    """The live link with this token: None alike for unknown, expired and withdrawn ones."""
    statement = select(Share).where(Share.token_hash == token_hash, *_live(now))
    return session.execute(statement).scalar_one_or_none()


def withdraw_share(session: WriteSession, share_id: str) -> bool:
    """Withdraw a link at once. False where it is unknown or withdrawn already."""
    statement = update(Share).where(Share.id == share_id, Share.withdrawn.is_(None))
    return session.execute(statement.values(withdrawn=time.time()).returning(Share.id)).first() is not None


def add_visits(session: WriteSession, visits: Mapping[str, tuple[int, float]]) -> None:
    """Count uses of links: share id -> how many, and when the last one was (Unix seconds)."""
    for share_id, (number, last) in visits.items():
        statement = update(Share).where(Share.id == share_id)
        session.execute(statement.values(uses=Share.uses + number, last_used=last))


def _live(now: float | None) -> tuple[Any, Any]:
    return Share.withdrawn.is_(None), Share.expires > (time.time() if now is None else now)


def _panel(id: str, dashboard_id: str, position: int, panel: Mapping[str, Any]) -> Panel:
    return Panel(
        id=id, dashboard_id=dashboard_id, position=position, kind=panel["kind"], figure=panel.get("figure"),
        batch_id=panel.get("batch_id"), estimate_id=panel.get("estimate_id"),
        options=panel.get("options") or {}, caption=panel.get("caption") or "",
    )  # fmt: skip
