"""HTML of the groups of a wall: hundreds to a page, so written here. A template takes five times as long.

Whatever a file says goes through `escape` (into an attribute) or `shown` (into an element).
"""

from functools import lru_cache

from markupsafe import Markup, escape

from app.drawing import dot_strip
from app.formatting import number, percent
from app.pages.cells import Cell
from app.tokens import plain, shown

#: Characters of a group's id on its tile, and in its line of a list; the whole id is in the title.
ON_TILE, IN_LINE = 22, 14


def tile(cell: Cell, low: float, high: float, href: str) -> Markup:
    """A group on the wall. `href`: the address of its page, escaped."""
    classes = " dead" if cell.dead else " near-zero" if cell.signal == "near_zero" else ""
    label = f"rewards of {cell.size} rollouts, mean {number(cell.mean)}"
    share = "" if cell.share is None else f"<span>{percent(cell.share)}</span>"
    words = f'<span class="cell-words">{cell.words}</span>\n' if cell.words else ""
    return Markup(
        f'<li class="cell{classes}"><a href="{href}">\n'
        f'<span class="cell-name" title="{escape(plain(cell.group_id))}">{name(cell, ON_TILE)}</span>\n'
        f"{strip(cell.rewards, low, high, label)}\n"
        f'<span class="cell-numbers"><span>{cell.passed}/{cell.scored}</span>'
        f"<span>σ {number(cell.std, 2)}</span>{share}</span>\n{words}</a></li>\n"
    )


def line(cell: Cell, low: float, high: float, href: str, attributes: str = "") -> Markup:
    """A group in a list of all. `href` and `attributes` of the link are escaped."""
    classes = "group-line dead" if cell.dead else "group-line"
    words = f'<span class="visually-hidden"> {cell.words}</span>' if cell.words else ""
    return Markup(
        f'<li><a class="{classes}" href="{href}"{attributes} title="{escape(plain(cell.group_id))}">\n'
        f'<span class="name">{name(cell, IN_LINE)}</span>'
        f"{strip(cell.rewards, low, high, f'rewards of {cell.size} rollouts', 88, 28)}"
        f'<span class="numbers">{cell.passed}/{cell.scored} σ {number(cell.std, 2)}{words}</span></a></li>\n'
    )


def name(cell: Cell, most: int) -> Markup:
    """The id, cut to `most` characters."""
    return shown(cell.group_id if len(cell.group_id) <= most else f"{cell.group_id[: most - 1]}…")


def strip(
    rewards: tuple[float | None, ...], low: float, high: float, label: str, width: int = 100, height: int = 34
) -> str:
    """The picture of a group's rewards as SVG."""
    before, after = _around_label(rewards, low, high, width, height)
    return f"{before}{escape(label)}{after}"


@lru_cache(maxsize=4096)
def _around_label(
    rewards: tuple[float | None, ...], low: float, high: float, width: int, height: int
) -> tuple[str, str]:
    drawn = dot_strip(rewards, low, high, width, height)
    mean = (
        ""
        if drawn.mean is None
        else (f'<line class="mean" x1="{drawn.mean}" x2="{drawn.mean}" y1="{height - 6}" y2="{height}"/>')
    )
    return (
        f'<svg class="strip" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="',
        f'"><line class="axis" x1="4" x2="{width - 4}" y1="{height - 3.5}" y2="{height - 3.5}"/>{mean}'
        f'<path class="dots" d="{drawn.path}"/></svg>',
    )
