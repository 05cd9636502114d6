"""The estimates of a batch against each other: a matrix of Spearman's ρ and of equal signs.

Each rollout counts once, with the mean of its unmasked tokens. Above the diagonal stands ρ, below it the
share of rollouts whose signs are equal. With the option `against` two are drawn as a scatter instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.figures import chosen as choosing
from app.figures.agreement import signs
from app.figures.chosen import RECORDED, Floats
from app.figures.figure import ESTIMATE, Figure, Option, Plot
from app.figures.kept import columns_of
from app.figures.length_advantage import spearman
from app.figures.pair import draw_pair
from app.figures.palette import DIVERGING, LIGHT
from app.figures.plotly import axis, empty, escape, figure, shorten
from app.figures.wording import stated, told_apart
from app.formatting import integer, number, percent
from storage import estimates
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Estimates against each other"
X, Y = "the same estimates, by number", "estimate"
MOST = 12
AGAINST = Option("text", "Id of another estimate, or `recorded`: the two as a scatter instead of the matrix.")
NOTHING = "no advantages: none are recorded, and no estimate of this batch is finished yet."


@dataclass(frozen=True, slots=True)
class Line:
    """One row and column of the matrix. `key`: an estimate's id, or "recorded"; `values` `[B]`."""

    key: str
    name: str
    label: str
    values: Floats


@dataclass(frozen=True, slots=True)
class Agreement:
    """`n` rollouts that have both; ρ is None where it is not defined."""

    n: int
    rho: float | None
    same: int


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    if options["against"] is not None:
        return draw_pair(session, batch, options["estimate"], options["against"], TITLE)
    lines, left = read_lines(session, batch, options["estimate"])
    if not lines:
        return empty(TITLE, NOTHING, x=X, y=Y)
    if len(lines) < 2:
        only = escape(lines[0].name)
        return empty(TITLE, f"no second estimate to hold against {only}; request another one.", x=X, y=Y)
    return _figure(batch, lines, left)


def read_lines(session: ReadSession, batch: Batch, asked: str | None) -> tuple[list[Line], int]:
    """The recorded advantages, then the finished estimates (`asked` first, then Vantage's own), as far as
    they fit, and how many did not. Raises NotFound and Conflict for what is asked."""
    done = [each for each in estimates.of_batch(session, batch.id) if each.state == "succeeded"]
    if asked not in (None, RECORDED):
        choosing.choose(session, batch, asked)
        done.sort(key=lambda each: each.id != asked)
    found = [choosing.choose(session, batch, each.id) for each in done]
    recorded = choosing.choose(session, batch, RECORDED)
    found = found if recorded.why is not None else [recorded, *found]
    columns = columns_of(session, batch)
    lines = [
        Line(
            each.estimate.id if each.estimate is not None else RECORDED,
            name,
            stated(each),
            choosing.per_rollout(session, batch, each, columns),
        )
        for each, name in zip(found[:MOST], told_apart(found[:MOST]), strict=True)
    ]
    kept = [line for line in lines if np.isfinite(line.values).any()]
    return kept, len(found) - len(lines)


def agreement(one: Floats, other: Floats) -> Agreement:
    """Of the rollouts that have both numbers; a sign is −, 0 or +."""
    both = np.isfinite(one) & np.isfinite(other)
    first, second = one[both], other[both]
    return Agreement(first.size, spearman(first, second), int((signs(first) == signs(second)).sum()))


def _figure(batch: Batch, lines: Sequence[Line], left: int) -> Plot:
    count = len(lines)
    pairs = {(i, j): agreement(lines[i].values, lines[j].values) for i in range(count) for j in range(i)}
    ordered = [[pairs.get((max(i, j), min(i, j))) for j in range(count)] for i in range(count)]
    return figure(
        [_cells(batch, lines, ordered)],
        TITLE,
        _sentence(lines, pairs, left),
        height=min(720, 130 + 34 * count),
        annotations=[
            _number(i, j, cell) for i, row in enumerate(ordered) for j, cell in enumerate(row) if cell
        ],
        xaxis=axis(
            X, tickvals=list(range(count)), ticktext=[str(i + 1) for i in range(count)], **_fixed(False)
        ),
        yaxis=axis(Y, tickvals=list(range(count)), ticktext=_rows(lines), **_fixed(True)),
        meta={
            "n": int(max(cell.n for cell in pairs.values())),
            "estimates": [{"key": line.key, "label": line.label} for line in lines],
            "spearman": [[cell and cell.rho for cell in row] for row in ordered],
            "equal_signs": [
                [cell.same / cell.n if cell and cell.n else None for cell in row] for row in ordered
            ],
        },
    )


def _rows(lines: Sequence[Line]) -> list[str]:
    return [f"{escape(shorten(line.name, 30))}  {i + 1}" for i, line in enumerate(lines)]


def _fixed(reverse: bool) -> dict[str, Any]:
    return {"showgrid": False, "fixedrange": True, **({"autorange": "reversed"} if reverse else {})}


def _level(row: int, column: int, cell: Agreement | None) -> float | None:
    """−1 … 1: ρ above the diagonal; below it no sign equal … all equal."""
    if cell is None or not cell.n:
        return None
    return cell.rho if column > row else 2.0 * cell.same / cell.n - 1.0


def _cells(batch: Batch, lines: Sequence[Line], ordered: Sequence[Sequence[Agreement | None]]) -> Plot:
    count = len(lines)
    return {
        "type": "heatmap",
        "name": "agreement",
        "x": list(range(count)),
        "y": list(range(count)),
        "z": [[_level(i, j, cell) for j, cell in enumerate(row)] for i, row in enumerate(ordered)],
        "zmin": -1,
        "zmax": 1,
        "colorscale": DIVERGING,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "customdata": [
            [
                f"/batches/{batch.id}/compare?estimate={lines[i].key}&against={lines[j].key}"
                for j in range(count)
            ]
            for i in range(count)
        ],
        "hovertext": [
            [_hover(lines[i], lines[j], ordered[i][j]) for j in range(count)] for i in range(count)
        ],
        "hoverinfo": "text",
    }


def _hover(one: Line, other: Line, cell: Agreement | None) -> str:
    if cell is None:
        return escape(one.label)
    return (
        f"{escape(one.label)}<br>against {escape(other.label)}<br>Spearman’s ρ {number(cell.rho)}<br>"
        f"{integer(cell.same)} of {integer(cell.n)} rollouts have the same sign"
    )


def _number(row: int, column: int, cell: Agreement) -> Plot:
    text = number(cell.rho, 2) if column > row else percent(cell.same, cell.n)
    return {
        "x": column,
        "y": row,
        "text": text,
        "showarrow": False,
        "font": {"size": 11, "color": LIGHT["ink"]},
    }


def _sentence(lines: Sequence[Line], pairs: dict[tuple[int, int], Agreement], left: int) -> str:
    (i, j), worst = min(pairs.items(), key=lambda each: each[1].same / max(each[1].n, 1))
    text = "Above the diagonal Spearman’s ρ, below it the share of rollouts with equal signs; one mean per "
    text += f"rollout, n = {integer(max(cell.n for cell in pairs.values()))}. "
    text += f"Least alike: {escape(lines[i].name)} and {escape(lines[j].name)}, "
    text += f"{integer(worst.same)} of {integer(worst.n)} signs equal"
    return text + (f"; {integer(left)} more estimates are not shown." if left else ".")


FIGURE = Figure(
    "estimator_agreement",
    TITLE,
    "The estimates of a batch against each other: Spearman's rho and equal signs, or two as a scatter.",
    ("two estimates, or one and recorded advantages",),
    draw,
    options={"estimate": ESTIMATE, "against": AGAINST},
)
