"""/s/{token}: one dashboard, read-only, for whoever has its link. All that it draws is inside the page."""

from dataclasses import dataclass

from app import sharing
from app.deps import EngineDep
from app.pages.page import Page
from app.panel_views import PanelView
from storage import dashboards
from storage.database import read, write


@dataclass(frozen=True, slots=True)
class SharedPage:
    title: str
    note: str
    panels: tuple[PanelView, ...]
    hide_text: bool
    frozen: bool
    taken: float
    expires: float


def build(engine: EngineDep, token: str) -> SharedPage:
    """The page of a live link, and one more use of it. Raises NotFound alike for every other token."""
    with read(engine) as session:
        share = sharing.resolve(session, token)
        shown = sharing.shown_by(session, share)
        frozen, expires, share_id = share.snapshot is not None, share.expires, share.id
    with write(engine) as writing:
        dashboards.touch_share(writing, share_id)
    return SharedPage(shown.title, shown.note, shown.panels, shown.hide_text, frozen, shown.taken, expires)


PAGE = Page("/s/{token}", "pages/shared.html", SharedPage, build)
