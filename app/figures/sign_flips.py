"""Signs under one whitening scope against signs under another: 3 × 3 counts, and who is in each cell."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.agreement import signs
from app.figures.chosen import Floats
from app.figures.figure import Figure, Option, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import axis, empty, figure
from app.figures.scopes import LABELS, OPTIONS, SCOPES, Base, how, read_base, under, why_not
from app.formatting import integer, percent, plural
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Who changes sign"
SIGNS = ("−", "0", "+")
MOST_LISTED = 2000  # rollouts that one cell lists
FROM = Option(
    "choice", "Scope that signs are read from; default group, raw where there is one group.", None, SCOPES
)
TO = Option("choice", "Scope that signs change to.", "batch", SCOPES)


def pair(base: Base, options: dict[str, Any]) -> tuple[str, str]:
    """The two scopes that signs are compared between."""
    several = base.group is not None and np.unique(base.group[base.live]).size > 1
    natural = "group" if several and base.name == "reward" else "none"
    return str(options["from"] or natural), str(options["to"])


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    base = read_base(session, batch, options)
    first, second = pair(base, options)
    x, y = f"sign under {LABELS[second]}", f"sign under {LABELS[first]}"
    if base.why is not None:
        return empty(TITLE, base.why, x=x, y=y)
    before, after = under(base, first), under(base, second)
    if before is None or after is None:
        absent = first if before is None else second
        return empty(TITLE, f"no {LABELS[absent]} scope: {why_not(base, absent)}.", x=x, y=y)
    cells = matrix(signs(before), signs(after), base.live)
    return _figure(base, cells, x, y, first, second)


def turned(base: Base, before: Floats, after: Floats) -> NDArray[np.bool_]:
    """`[B]` whose sign is the opposite under the one scope of what it is under the other."""
    return base.live & (signs(before) * signs(after) < 0)


def matrix(
    before: NDArray[np.int64], after: NDArray[np.int64], live: NDArray[np.bool_]
) -> list[list[NDArray[np.int64]]]:
    """Positions of the rollouts with each pair of signs: rows − 0 + before, columns − 0 + after."""
    return [
        [np.flatnonzero(live & (before == one) & (after == other)) for other in (-1, 0, 1)]
        for one in (-1, 0, 1)
    ]


def _figure(
    base: Base, cells: list[list[NDArray[np.int64]]], x: str, y: str, first: str, second: str
) -> Plot:
    counts = [[int(cell.size) for cell in row] for row in cells]
    # 0: keeps its sign; 1: to or from zero; 2: flips. Empty cells are never loud.
    kinds = [
        [(2 if abs(i - j) == 2 else 1 if i != j else 0) if counts[i][j] else 0 for j in range(3)]
        for i in range(3)
    ]
    listed = [[np.sort(base.columns.index[cell])[:MOST_LISTED].tolist() for cell in row] for row in cells]
    return figure(
        [_cells(counts, kinds, listed)],
        TITLE,
        _sentence(base, counts, first, second),
        height=300,
        annotations=[_count(i, j, counts[i][j], kinds[i][j]) for i in range(3) for j in range(3)],
        xaxis=axis(x, side="top", range=[-0.5, 2.5], **_fixed()),
        yaxis=axis(y, range=[2.5, -0.5], **_fixed()),
        meta={"n": int(base.live.sum()), "from": first, "to": second, "counts": counts, "rollouts": listed},
    )


def _cells(counts: list[list[int]], kinds: list[list[int]], listed: list[list[list[int]]]) -> Plot:
    steps = [LIGHT["raised"], LIGHT["masked"], LIGHT["flip"]]
    said = [
        [f"{one} becomes {other}: {plural(n, 'rollout')}" for other, n in zip(SIGNS, row, strict=True)]
        for one, row in zip(SIGNS, counts, strict=True)
    ]
    return {
        "type": "heatmap",
        "name": "rollouts",
        "x": [0, 1, 2],
        "y": [0, 1, 2],
        "z": kinds,
        "zmin": -0.5,
        "zmax": 2.5,
        "colorscale": [(edge, colour) for i, colour in enumerate(steps) for edge in (i / 3, (i + 1) / 3)],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "customdata": listed,
        "hovertext": said,
        "hoverinfo": "text",
    }


def _fixed() -> dict[str, Any]:
    return {"tickvals": [0, 1, 2], "ticktext": list(SIGNS), "showgrid": False, "fixedrange": True}


def _count(row: int, column: int, count: int, kind: int) -> Plot:
    return {
        "x": column,
        "y": row,
        "text": f"<b>{integer(count)}</b>" if kind == 2 else integer(count),
        "showarrow": False,
        "font": {"size": 14, "color": LIGHT["paper"] if kind == 2 else LIGHT["ink"]},
    }


def _sentence(base: Base, counts: list[list[int]], first: str, second: str) -> str:
    n = int(base.live.sum())
    down, up = counts[2][0], counts[0][2]
    verb = "changes" if down + up == 1 else "change"
    return (
        f"{integer(down + up)} of {plural(n, 'rollout')} ({percent(down + up, n)}) {verb} sign from "
        f"{LABELS[first]} to {LABELS[second]}: {integer(down)} from + to −, {integer(up)} from − to +; "
        f"{how(base)}."
    )


FIGURE = Figure(
    "sign_flips",
    TITLE,
    "Signs of all rollouts under one whitening scope against another, as a 3 × 3 matrix that lists them.",
    ("reward, or an estimate",),
    draw,
    options=OPTIONS | {"from": FROM, "to": TO},
)
