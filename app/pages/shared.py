"""/s/{token}: one dashboard, read-only, for whoever has its link. All that it draws is inside the page."""

from dataclasses import dataclass

from app import sharing
from app.deps import Reader, VisitsDep
from app.pages.page import Page
from app.panel_views import PanelView


@dataclass(frozen=True, slots=True)
class SharedPage:
    title: str
    note: str
    panels: tuple[PanelView, ...]
    hide_text: bool
    frozen: bool
    taken: float
    expires: float


def build(session: Reader, visits: VisitsDep, token: str) -> SharedPage:
    """The page of a live link, and one more use of it. Raises NotFound alike for every other token."""
    share = sharing.resolve(session, token)
    shown = sharing.shown_by(session, share)
    visits.count(share.id)
    frozen = share.snapshot is not None
    return SharedPage(
        shown.title, shown.note, shown.panels, shown.hide_text, frozen, shown.taken, share.expires
    )


PAGE = Page("/s/{token}", "pages/shared.html", SharedPage, build)
