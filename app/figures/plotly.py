"""Small pieces of Plotly figures: typed arrays, axes, the base layout, the honest empty figure."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.figures.figure import Plot
from app.figures.palette import LIGHT
from app.formatting import number
from estimators.aggregates import quantiles

PLAIN = 100  # arrays up to this many values are plain lists
_DTYPES = {
    "float32": "f4",
    "float64": "f8",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "uint8": "u1",
    "uint16": "u2",
}
TRANSPARENT = "rgba(0,0,0,0)"


def array(values: ArrayLike) -> Any:
    """A data array for Plotly: a list, or `{"dtype", "bdata", "shape"}` where it has more than 100 values.

    Takes one or two dimensions of numbers. NaN is a gap (null in a list). int64 becomes int32 where it fits,
    else float64; float16 becomes float32 (plotly.js knows neither).
    """
    data = np.asarray(values)
    if data.dtype == np.bool_:
        data = data.astype(np.uint8)
    if data.dtype == np.float16:
        data = data.astype(np.float32)
    if data.dtype in (np.int64, np.uint64, np.uint32):
        small = data.size == 0 or (data.min() >= -(2**31) and data.max() < 2**31)
        data = data.astype(np.int32 if small else np.float64)
    if data.size <= PLAIN:
        return _plain(data)
    data = np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": _DTYPES[data.dtype.name],
        "bdata": base64.b64encode(data.tobytes()).decode(),
        "shape": ", ".join(map(str, data.shape)),
    }


def _plain(data: NDArray[Any]) -> Any:
    if data.dtype.kind != "f":
        return data.tolist()
    if data.ndim == 2:
        return [_plain(row) for row in data]
    return [value if np.isfinite(value) else None for value in data.tolist()]


def decode(data: Any) -> NDArray[Any]:
    """The numbers of what `array` made (for tests and tables); null is NaN."""
    if not isinstance(data, dict):
        return np.array(data, dtype=float)
    shape = [int(part) for part in data["shape"].split(",")]
    return np.frombuffer(base64.b64decode(data["bdata"]), dtype="<" + data["dtype"]).reshape(shape)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its name and unit."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 12, "color": LIGHT["muted"]}},
        "tickfont": {"color": LIGHT["muted"]},
        "gridcolor": LIGHT["grid"],
        "linecolor": LIGHT["rule"],
        "zerolinecolor": LIGHT["zero"],
        "zeroline": False,
        "automargin": True,
    } | more


def figure(traces: list[Plot], title: str, sentence: str, *, height: int = 320, **layout: Any) -> Plot:
    """A figure with the base layout. `meta` in `layout` is merged into `layout.meta`."""
    meta = {"sentence": sentence, "empty": None} | layout.pop("meta", {})
    base = {
        "title": {
            "text": escape(title),
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 10, "l": 8},
            "font": {"size": 14, "color": LIGHT["ink"]},
        },
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 60 if layout.get("showlegend") else 40, "b": 44},
        "paper_bgcolor": LIGHT["paper"],
        "plot_bgcolor": LIGHT["paper"],
        "font": {"family": "system-ui, DejaVu Sans, sans-serif", "size": 12, "color": LIGHT["ink"]},
        "hoverlabel": {
            "bgcolor": LIGHT["raised"],
            "bordercolor": LIGHT["rule"],
            "font": {"color": LIGHT["ink"]},
            "align": "left",
        },
        "legend": {
            "orientation": "h",
            "x": 1,
            "xanchor": "right",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"color": LIGHT["muted"]},
        },
        "showlegend": False,
        "template": "none",
        "meta": meta,
    }
    return {"data": traces, "layout": base | layout}


def empty(title: str, why: str, *, x: str = "", y: str = "", **layout: Any) -> Plot:
    """A figure without traces that says why, in the middle of its named axes."""
    note = {
        "text": escape(why),
        "x": 0.5,
        "y": 0.5,
        "xref": "paper",
        "yref": "paper",
        "showarrow": False,
        "font": {"size": 13, "color": LIGHT["muted"]},
    }
    meta = {"empty": why} | layout.pop("meta", {})
    axes = {"xaxis": axis(x, range=[0, 1], showticklabels=False, showgrid=False)} | {
        "yaxis": axis(y, range=[0, 1], showticklabels=False, showgrid=False)
    }
    return figure([], title, why, height=200, annotations=[note], meta=meta, **axes, **layout)


def escape(text: str) -> str:
    """Text for a title, label or hover: Plotly reads a few tags, which a file must not be able to send."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shorten(text: str, most: int = 24) -> str:
    """A label of at most `most` characters, without line breaks."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def rule(value: float, *, vertical: bool = False, reference: str = "") -> Plot:
    """A thin line across the whole plot at a value (a shape)."""
    along, across = ("x", "y") if vertical else ("y", "x")
    return {
        "type": "line",
        f"{along}0": value,
        f"{along}1": value,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": (reference or across) + " domain",
        "line": {"color": LIGHT["zero"], "width": 1},
        "layer": "below",
    }


def proportionate(values: ArrayLike) -> NDArray[np.bool_]:
    """Which values may set a colour scale or an axis: not those above 1e4 and 1e4 × the median size.

    No z-score of a batch gets there; a reward divided by ε does, and would flatten everything beside it.
    """
    size = np.abs(np.asarray(values, dtype=np.float64))
    live = size[np.isfinite(size) & (size > 0)]
    limit = max(1e4, 1e4 * quantiles([live], (0.5,))[0]) if live.size else np.inf
    return np.asarray(size <= limit)


def outside(values: ArrayLike) -> str:
    """Words for the values that the axis leaves out; empty where there are none."""
    data = np.asarray(values, dtype=np.float64)
    left = np.abs(data[np.isfinite(data) & ~proportionate(data)])
    return f"; {left.size} beyond the axis, up to {number(float(left.max()))} in size" if left.size else ""


def symmetric(values: NDArray[np.floating[Any]] | Sequence[float], pad: float = 1.08) -> list[float]:
    """An axis range around 0 that holds every finite value, but for those out of all proportion."""
    data = np.asarray(values, dtype=float)
    data = data[proportionate(data)]
    reach = float(np.abs(data).max()) if data.size else 0.0
    reach = reach * pad if reach > 0 else 1.0
    return [-reach, reach]
