"""Links that show one dashboard and nothing else: made, opened, frozen.

A token is 256 random bits; only its SHA-256 is stored. A link that is unknown, has expired or was withdrawn
is answered in one way, so that nobody learns which of these it is.
"""

import hashlib
import json
import math
import secrets
import time
from dataclasses import dataclass

import zstandard

from app.errors import NotFound, Unprocessable
from app.panel_views import PanelView, from_json, view
from app.responses import dumps
from app.settings import Settings
from storage import batches, dashboards
from storage.database import ReadSession, WriteSession
from storage.kept import Kept
from storage.models import Dashboard, Share

LONGEST_HOURS = 24.0 * 366
GONE = "This link shows nothing. It may have expired or been withdrawn: ask whoever sent it for a new one."


#: Views that were drawn lately, up to about a megabyte each: (what, link, hidden text, stand of the data).
KEPT_VIEWS = 32


@dataclass(frozen=True, slots=True)
class SharedView:
    """Everything that a dashboard shows to somebody else. Nothing in it names an id or an address.

    `taken` is when the numbers were read (Unix seconds).
    """

    title: str
    note: str
    panels: tuple[PanelView, ...]
    hide_text: bool
    taken: float


_DRAWN: Kept[tuple[str, str, bool, str], SharedView] = Kept(KEPT_VIEWS)


def digest(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def lifetime(hours: float | None, settings: Settings) -> float:
    """Seconds that a new link lives. Raises Unprocessable outside 0 < hours ≤ a year."""
    hours = settings.share_hours if hours is None else hours
    if not math.isfinite(hours) or not 0 < hours <= LONGEST_HOURS:
        message = f"must be above 0 and at most {LONGEST_HOURS:g} (a year), not {hours:g}"
        problem = {"row": None, "field": "expires_in_hours", "message": message}
        raise Unprocessable(f"expires_in_hours {message}.", [problem])
    return hours * 3600.0


def present(session: ReadSession, dashboard: Dashboard, hide_text: bool = False) -> SharedView:
    """The dashboard as it is now."""
    panels = tuple(
        view(session, panel, hidden=hide_text) for panel in dashboards.panels(session, dashboard.id)
    )
    return SharedView(dashboard.title, dashboard.note, panels, hide_text, time.time())


def freeze(shown: SharedView) -> bytes:
    """The view as zstd of JSON, to be kept with the link. Text that is hidden in it is not there at all."""
    return zstandard.ZstdCompressor(level=3).compress(dumps(shown))


def thaw(frozen: bytes) -> SharedView:
    # Python's own parser takes half characters, too.
    body = json.loads(zstandard.ZstdDecompressor().decompress(frozen))
    return SharedView(**{**body, "panels": tuple(from_json(panel) for panel in body["panels"])})


def create(
    session: WriteSession, dashboard_id: str, seconds: float, hide_text: bool, frozen: bytes | None
) -> tuple[Share, str]:
    """A new link and its token, which cannot be shown again."""
    token = secrets.token_urlsafe(32)
    expires = time.time() + seconds
    share = dashboards.create_share(
        session, dashboard_id, digest(token), expires, hide_text=hide_text, snapshot=frozen
    )
    return share, token


def resolve(session: ReadSession, token: str) -> Share:
    """The live link of a token. Raises NotFound, the same for every reason."""
    share = dashboards.share_by_token_hash(session, digest(token))
    if share is None:
        raise NotFound(GONE)
    return share


def shown_by(session: ReadSession, share: Share) -> SharedView:
    """What the link shows: its snapshot, else the dashboard as it is now. Drawn once for all who open it."""
    snapshot, hidden = share.snapshot, share.hide_text
    if snapshot is not None:
        return _DRAWN.get(("snapshot", share.id, hidden, ""), lambda: thaw(snapshot))
    dashboard = dashboards.get(session, share.dashboard_id)
    if dashboard is None:
        raise NotFound(GONE)
    stand = f"{dashboard.updated!r} {batches.stand(session)}"
    return _DRAWN.get((dashboard.id, "", hidden, stand), lambda: present(session, dashboard, hidden))
