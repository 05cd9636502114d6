"""Rollouts × tokens: where the credit and the blame fall.

Colour is diverging and centred at 0; it ends at the 98th percentile of |A| over all unmasked tokens of the
step, so that it does not change from view to view. Longer or larger batches are thinned on the server: each
cell then shows the advantage with the greatest |A| among the tokens (and rollouts) it stands for, so spikes
survive. Without recorded tokens a row is one colour over the characters of the response's text.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.even import CLIP_QUANTILE, even_clip, thin_even
from app.figures.extent import Extent, extent
from app.figures.figure import ESTIMATE, GROUP, Figure, Option, Plot
from app.figures.kept import columns_of
from app.figures.palette import DIVERGING, LIGHT
from app.figures.plotly import array, axis, empty, figure, proportionate
from app.figures.subject import group_members
from app.formatting import number, plural
from estimators.aggregates import quantiles
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Advantage of every token"
X, Y = "{} of the response", "rollout"
COLUMNS, ROWS = 1000, 500


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    chosen = choosing.choose(session, batch, options["estimate"], per_token=True)
    if chosen.why is not None:
        return empty(TITLE, chosen.why, x=X.format("token"), y=Y)
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    size = extent(session, batch, columns)
    made = _made(session, batch, chosen, columns, size, members, (options["columns"], options["rows"]))
    if made is None:
        why = "no values recorded: neither response tokens nor texts, so there is nothing per token."
        return empty(TITLE, why, x=X.format(size.unit), y=Y)
    return _figure(chosen.label, columns.index[members], *made, size)


def _made(
    session: ReadSession,
    batch: Batch,
    chosen: choosing.Chosen,
    columns: rollouts.Columns,
    size: Extent,
    members: NDArray[np.int64],
    most: tuple[int, int],
) -> tuple[NDArray[np.float32], NDArray[np.bool_], int, int, float] | None:
    """As `thin`, and where the colour ends; None where nothing is known of the tokens."""
    if chosen.field is not None:
        read = choosing.tokens(session, batch, chosen.field)
        return (
            None
            if read is None or not read[1].any()
            else (*thin(*read, members, *most), clip_of(read[0], read[2]))
        )
    # One number per rollout: every unmasked token has it.
    each = choosing.per_rollout(session, batch, chosen, columns).astype(np.float32)
    mask = choosing.tokens(session, batch, "response_mask")
    lengths = np.maximum(size.lengths, 0) if mask is None else mask[1]
    if not lengths.any():
        return None
    if mask is None:
        return *thin_even(each, lengths, members, *most), even_clip(each, lengths)
    values, unmasked = np.repeat(each, lengths), mask[0] > 0
    return *thin(values, lengths, unmasked, members, *most), clip_of(values, unmasked)


def clip_of(values: NDArray[Any], mask: NDArray[np.bool_]) -> float:
    """The 98th percentile of |A| over finite unmasked tokens; the largest if that is 0; 1 if all are 0."""
    size = np.abs(values[mask & np.isfinite(values)])
    if not size.size:
        return 1.0
    size = size[proportionate(size)]
    return quantiles([size], (CLIP_QUANTILE,))[0] or float(size.max()) or 1.0


def thin(
    values: NDArray[Any],
    lengths: NDArray[np.int64],
    mask: NDArray[np.bool_],
    members: NDArray[np.int64],
    columns: int,
    rows: int,
) -> tuple[NDArray[np.float32], NDArray[np.bool_], int, int]:
    """The grid `[rows, columns]`, which cells hold masked tokens only, tokens per column and rollouts per
    row.

    A cell is the finite unmasked value of greatest size, with its sign; NaN beyond a response's end and where
    all is masked.
    """
    longest = int(lengths[members].max(initial=1))
    width = max(1, -(-longest // columns))
    height = max(1, -(-members.size // rows))
    cells = -(-longest // width)
    high = np.full((members.size, cells), -np.inf, dtype=np.float32)
    low = np.full((members.size, cells), np.inf, dtype=np.float32)
    there = np.zeros((members.size, cells), dtype=bool)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    for row, member in enumerate(members.tolist()):
        first, length = int(starts[member]), int(lengths[member])
        if not length:
            continue
        own = values[first : first + length]
        usable = mask[first : first + length] & np.isfinite(own)
        edges = np.arange(0, length, width)
        high[row, : edges.size] = np.maximum.reduceat(np.where(usable, own, -np.inf), edges)
        low[row, : edges.size] = np.minimum.reduceat(np.where(usable, own, np.inf), edges)
        there[row, : edges.size] = True
    if height > 1:
        blocks = np.arange(0, members.size, height)
        high, low = np.maximum.reduceat(high, blocks), np.minimum.reduceat(low, blocks)
        there = np.logical_or.reduceat(there, blocks)
    grid = np.where(high >= -low, high, low)
    known = np.isfinite(grid)
    return np.where(known, grid, np.nan).astype(np.float32), there & ~known, width, height


def _figure(
    label: str,
    index: NDArray[np.int64],
    grid: NDArray[np.float32],
    masked: NDArray[np.bool_],
    width: int,
    height: int,
    clip: float,
    size: Extent,
) -> Plot:
    names = [f"#{i}" for i in index.tolist()] if height == 1 else _blocks(index, height)
    place = {"x0": (width - 1) / 2, "dx": width, "y": names}
    unit = size.unit if width == 1 else f"{width} {size.unit}s from"
    traces = [_heat(grid, place, unit, clip)]
    if masked.any():
        traces.append(_masked(masked, place, unit))
    return figure(
        traces,
        TITLE,
        _sentence(label, index.size, width, height, clip, bool(masked.any()), size),
        height=min(720, 120 + 14 * grid.shape[0]),
        xaxis=axis(X.format(size.unit), showgrid=False),
        yaxis=axis(Y, type="category", autorange="reversed", showgrid=False),
        meta={
            "n": int(index.size),
            "clip": clip,
            "tokens_per_column": width,
            "rollouts_per_row": height,
            "unit": size.unit,
            "wide": True,
        },
    )


def _heat(grid: NDArray[np.float32], place: Plot, unit: str, clip: float) -> Plot:
    return {
        "type": "heatmap",
        "name": "advantage",
        "z": array(grid),
        **place,
        "zmin": -clip,
        "zmid": 0,
        "zmax": clip,
        "colorscale": DIVERGING,
        "colorbar": {"title": {"text": "A", "side": "top"}, "thickness": 10, "outlinewidth": 0, "len": 0.9},
        "hoverongaps": False,
        "hovertemplate": f"rollout %{{y}}<br>{unit} %{{x:.0f}}<br>advantage %{{z:.3g}}<extra></extra>",
    }


def _masked(masked: NDArray[np.bool_], place: Plot, unit: str) -> Plot:
    return {
        "type": "heatmap",
        "name": "masked",
        "z": array(np.where(masked, np.float32(1), np.float32(np.nan))),
        **place,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [(0, LIGHT["masked"]), (1, LIGHT["masked"])],
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": f"rollout %{{y}}<br>{unit} %{{x:.0f}}<br>masked, or no finite value<extra></extra>",
    }


def _blocks(index: NDArray[np.int64], height: int) -> list[str]:
    parts = [index[i : i + height] for i in range(0, index.size, height)]
    return [f"#{part[0]}" if part.size == 1 else f"#{part[0]} +{part.size - 1}" for part in parts]


def _sentence(label: str, rows: int, width: int, height: int, clip: float, masked: bool, size: Extent) -> str:
    text = f"{label}, n = {plural(rows, 'rollout')}; "
    text += f"colour ends at ±{number(clip)}, the p98 of |A| over the step"
    if width > 1 or height > 1:
        text += f"; each cell shows the greatest |A| of {plural(width, size.unit)}"
        text += f" and {plural(height, 'rollout')}" if height > 1 else ""
    if size.unit == "character":
        return (
            text + "; no tokens are recorded: each response has one colour over the characters of its text."
        )
    return text + ("; grey is masked, or has no finite value." if masked else ".")


FIGURE = Figure(
    "token_heatmap",
    TITLE,
    "The advantage of every token of every rollout, as colour centred at 0.",
    ("response_mask or any per-token field, else the response's text",),
    draw,
    options={
        "estimate": ESTIMATE,
        "group": GROUP,
        "columns": Option("integer", "Most columns.", COLUMNS, least=1, most=2000),
        "rows": Option("integer", "Most rows.", ROWS, least=1, most=1000),
    },
)
