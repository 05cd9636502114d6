"""Dot strips: one row per prompt group, one dot per rollout, equal values stacked. For a handful of values a
histogram or a box would lie."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import BadRequest
from app.figures.figure import Option, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, escape, figure, shorten
from storage.models import Batch
from storage.rollouts import Columns

#: Most dots of one figure: more make the page slow.
MOST_DOTS = 2000
GROUPS = Option("integer", "Most groups to show.", 64, least=1, most=1024)
FROM = Option("integer", "First group to show, counted from 0 in the chosen order.", 0)
STACK = 0.7  # height of a full stack, in rows
STEP = 0.1  # between two stacked dots, unless the stack would be higher than STACK
ROW = 40  # pixels


@dataclass(frozen=True, slots=True)
class Strip:
    """The dots of the groups shown. `place` are positions in storage order; `x`, `y` where each dot is.

    numbers   group_no of each row, top first; `first` and `total`: which of how many groups
    """

    place: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    row: NDArray[np.int64]
    numbers: list[int]
    first: int
    total: int


def strip(
    columns: Columns, values: NDArray[np.float64], order: NDArray[np.int64], options: dict[str, Any]
) -> Strip:
    """Lays out the finite `values` `[B]` of some groups. `order`: all group numbers as they should be shown.

    Raises BadRequest where `from` is beyond the last group.
    """
    first = int(options["from"])
    if first >= order.size > 0:
        raise BadRequest(f"Option 'from' is {first}, but there are {order.size} groups; it counts from 0.")
    shown = order[first : first + int(options["groups"])]
    finite = np.isfinite(values)
    places: list[NDArray[np.int64]] = []
    kept: list[int] = []
    dots = 0
    for number in shown.tolist():
        start, end = np.searchsorted(columns.group_no, [number, number + 1])
        own = np.arange(start, end)[finite[start:end]]
        if dots + own.size > MOST_DOTS and kept:
            break
        dots += own.size
        places.append(own[:MOST_DOTS])
        kept.append(number)
    place = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(kept)), [own.size for own in places])
    x = values[place]
    return Strip(place, x, row - _heights(row, x), row, kept, first, int(order.size))


def _heights(row: NDArray[np.int64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far above its row each dot stands: equal values (to a hundredth of the range) are stacked."""
    height = np.zeros(x.size)
    if not x.size:
        return height
    span = float(x.max() - x.min()) or 1.0
    bins = np.round((x - x.min()) / span * 100).astype(np.int64)
    _, member, counts = np.unique(row * 1000 + bins, return_inverse=True, return_counts=True)
    order = np.argsort(member, kind="stable")
    within = np.arange(x.size) - np.repeat(np.cumsum(counts) - counts, counts)
    step = np.minimum(STEP, STACK / np.maximum(counts - 1, 1))
    height[order] = within * step[member[order]]
    return height


def dot_size(laid: Strip) -> float:
    """Pixels across: smaller where rows are many."""
    return 8.0 if len(laid.numbers) <= 8 else 6.5 if len(laid.numbers) <= 16 else 5.0


def dots(
    batch: Batch,
    columns: Columns,
    laid: Strip,
    which: NDArray[np.bool_],
    name: str,
    role: str,
    symbol: str,
    *,
    of: str,
    **marker: float,
) -> Plot:
    """The trace of some dots; a click on one opens its rollout. `of`: what x is, for the hover text."""
    index = columns.index[laid.place[which]].tolist()
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": array(laid.x[which]),
        "y": array(laid.y[which]),
        "customdata": [[i, f"/batches/{batch.id}/rollouts/{i}"] for i in index],
        "marker": {
            "color": LIGHT[role],
            "size": dot_size(laid),
            "symbol": symbol,
            **marker,
            # An outline in the ground's colour keeps stacked dots apart; an open symbol is its outline.
            "line": {"color": LIGHT[role if symbol.endswith("open") else "paper"], "width": 1},
        },
        "hovertemplate": f"rollout #%{{customdata[0]}}<br>{of} %{{x:.4g}}<extra></extra>",
    }


def strip_figure(
    traces: list[Plot], title: str, sentence: str, laid: Strip, labels: list[str], **layout: Any
) -> Plot:
    """The figure of a strip: one row per group with its label, the first on top."""
    rows = axis(
        "prompt group",
        tickvals=list(range(len(labels))),
        ticktext=labels,
        range=[len(labels) - 0.4, -1.0],
        gridcolor=LIGHT["rule"],
    )
    meta = {"n": int(laid.place.size), "groups": laid.total, "shown": len(labels), "from": laid.first}
    height = min(2400, 110 + ROW * max(len(labels), 2))
    return figure(traces, title, sentence, height=height, showlegend=True, yaxis=rows, meta=meta, **layout)


def group_label(group_id: str, note: str) -> str:
    """The label of a row: the group and what there is to say of it."""
    return f"{escape(shorten(group_id))}  {note}"
