"""The group wall: every prompt group as a strip of its rewards, sorted, a screen at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup, escape

from app.figures.chosen import Chosen
from app.pages.cells import Cell, cells
from app.pages.tiles import line, tile
from storage.database import ReadSession
from storage.models import Batch

PER_PAGE = 256


@dataclass(frozen=True, slots=True)
class Wall:
    """`low`, `high`: the range of all rewards, the axis of all strips. `estimated`: weights are known."""

    cells: tuple[Cell, ...]
    total: int
    low: float
    high: float
    sort: str
    sorts: tuple[tuple[str, str], ...]
    page: int
    pages: int
    first: int
    estimated: bool

    def tiles(self, batch_id: str, estimate: str | None) -> Markup:
        """The groups as HTML; each leads to its page, under the estimate that this one shows."""
        way, end = escape(f"/batches/{batch_id}/groups/"), escape(f"?estimate={estimate}" if estimate else "")
        hrefs = (f"{way}{cell.group_no}{end}" for cell in self.cells)
        drawn = (tile(cell, self.low, self.high, href) for cell, href in zip(self.cells, hrefs, strict=True))
        return Markup("".join(drawn))

    def lines(self, batch_id: str, query: str, current: int, before: int | None, after: int | None) -> Markup:
        """The groups as a list, likewise; `query` ends the address of each. The three numbers: the group that
        is shown, and those that a key leads to."""
        said = {
            before: ' data-key="h" data-key-label="group before"',
            after: ' data-key="l" data-key-label="group after"',
            current: ' aria-current="page" id="here"',
        }
        way, end = escape(f"/batches/{batch_id}/groups/"), escape(query)
        drawn = (
            line(cell, self.low, self.high, f"{way}{cell.group_no}{end}", said.get(cell.group_no, ""))
            for cell in self.cells
        )
        return Markup("".join(drawn))


#: URL name -> (words, key; the larger first, None last).
SORTS: dict[str, tuple[str, Callable[[Cell], float | None]]] = {
    "weight": ("signal Σ|A|", lambda cell: cell.weight),
    "std": ("spread σ", lambda cell: cell.std),
    "mean": ("mean reward", lambda cell: cell.mean),
    "length": ("length", lambda cell: cell.length),
    "group": ("number", lambda cell: -cell.group_no),
}


def wall(
    session: ReadSession,
    batch: Batch,
    chosen: Chosen,
    sort: str | None,
    page: int = 1,
    around: int | None = None,
) -> Wall:
    """One page of the wall, or the one that the group `around` is on. An unknown sort is the default: by
    weight, or by spread without an estimate."""
    found = cells(session, batch, chosen)
    estimated = chosen.estimate is not None
    sorts = {name: words for name, (words, _) in SORTS.items() if estimated or name != "weight"}
    name = sort if sort in sorts else next(iter(sorts))
    key = SORTS[name][1]
    ordered = sorted(found, key=lambda cell: (order_of(key(cell)), cell.group_no))
    pages = max(1, -(-len(ordered) // PER_PAGE))
    if around is not None:
        place = next((i for i, cell in enumerate(ordered) if cell.group_no == around), 0)
        page = place // PER_PAGE + 1
    page = min(max(page, 1), pages)
    first = (page - 1) * PER_PAGE
    scored = [value for cell in found for value in cell.rewards if value is not None]
    return Wall(
        cells=tuple(ordered[first : first + PER_PAGE]),
        total=len(ordered),
        low=min(scored, default=0.0),
        high=max(scored, default=1.0),
        sort=name,
        sorts=tuple(sorts.items()),
        page=page,
        pages=pages,
        first=first + 1,
        estimated=estimated,
    )


def order_of(value: float | None) -> float:
    """The larger first, None last."""
    return float("inf") if value is None else -value
