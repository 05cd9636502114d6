"""Quantiles over steps as bands: two edges with the area between them, and lines on top."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.figure import Plot
from app.figures.plotly import array

#: Up to so many steps, each is a dot on its line.
FEW = 60


def quantiles_of(said: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Quantile -> its value at each step, NaN where a step has none."""
    found = [each.get("quantiles") or {} for each in said]
    return {key: np.array([each.get(key, np.nan) for each in found], dtype=np.float64) for key in keys}


def band(
    steps: NDArray[Any],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    names: tuple[str, str],
    colour: str,
) -> list[Plot]:
    """The upper edge without a line, and the lower edge that fills up to it. `names`: edge, band."""
    upper = _edge(names[0], steps, high, colour) | {"showlegend": False}
    lower = _edge(names[1], steps, low, colour)
    return [upper, lower | {"fill": "tonexty", "fillcolor": colour}]


def _edge(name: str, steps: NDArray[Any], values: NDArray[np.float64], colour: str) -> Plot:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": array(steps),
        "y": array(values),
        "line": {"width": 0, "color": colour},
        "hovertemplate": "%{y:.4g}",
        "showlegend": True,
    }


def line(
    name: str,
    steps: NDArray[Any],
    values: NDArray[np.float64],
    look: Mapping[str, Any],
    links: Sequence[Sequence[Any]],
    unit: str = "rollouts",
) -> Plot:
    """A line whose points open their batch: `links` are [how many, address] per step."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(values) < FEW else "lines",
        "name": name,
        "x": array(steps),
        "y": array(values),
        "line": dict(look),
        "marker": {"size": 5, "color": look["color"]},
        "customdata": [list(link) for link in links],
        "hovertemplate": f"%{{y:.4g}} (%{{customdata[0]}} {unit})",
    }
