"""The rewards of a step, counted on the server, stacked by data source."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.figure import GROUP, Figure, Plot
from app.figures.kept import columns_of
from app.figures.palette import CATEGORIES, LIGHT
from app.figures.plotly import array, axis, empty, escape, figure, shorten
from app.figures.subject import group_members, source_codes
from app.findings.fillers import fillers_of
from app.findings.statistics import describe, histogram
from app.formatting import integer, number, plural
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Rewards"
X, Y = "reward", "rollouts"
MOST_SOURCES = 7


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    known = np.isfinite(columns.reward) & ~fillers_of(session, batch, columns)
    reward = np.where(known, columns.reward, np.nan)[members]
    if not np.isfinite(reward).any():
        return empty(TITLE, "no values recorded: reward.", x=X, y=Y)
    codes, names = source_codes(columns)
    whole = histogram(reward)
    layers = [
        _bars(reward[which], whole, name, colour) for name, which, colour in _layers(codes[members], names)
    ]
    few = whole["values"] is not None
    where = {"tickvals": list(range(len(whole["values"]))), "ticktext": _ticks(whole)} if few else {}
    return figure(
        layers,
        TITLE,
        _sentence(reward, whole),
        barmode="stack",
        bargap=0.3 if few else 0.02,
        showlegend=len(layers) > 1,
        xaxis=axis(X, **where),
        yaxis=axis(Y, rangemode="tozero"),
        meta={"n": int(np.isfinite(reward).sum()), "bins": len(whole["counts"])},
    )


def _layers(codes: NDArray[np.int64], names: list[str]) -> list[tuple[str, NDArray[np.bool_], str]]:
    """Name, members and colour of each layer: the largest data sources, and the rest as one."""
    if not names:
        return [("rollouts", np.ones(codes.size, dtype=bool), LIGHT["accent"])]
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    largest = [int(i) for i in np.argsort(-counts, kind="stable")[:MOST_SOURCES] if counts[i]]
    layers = [(escape(shorten(names[i])), codes == i, CATEGORIES[k]) for k, i in enumerate(largest)]
    rest = ~np.isin(codes, largest)
    if rest.any():
        layers.append(("other or none", rest, LIGHT["dim"]))
    return layers


def _bars(reward: NDArray[np.float64], whole: dict[str, Any], name: str, colour: str) -> Plot:
    if whole["values"] is not None:
        values = np.array(whole["values"])
        kept = reward[np.isfinite(reward)]
        counts = np.bincount(np.searchsorted(values, kept), minlength=values.size)
        x: NDArray[Any] = np.arange(values.size)
        shape = {"customdata": array(values), "hovertemplate": "reward %{customdata:.4g}: %{y} rollouts"}
    else:
        edges = np.array(whole["edges"])
        counts = np.array(histogram(reward, edges)["counts"])
        x = (edges[:-1] + edges[1:]) / 2
        shape = {
            "width": float(edges[1] - edges[0]),
            "customdata": array(np.stack([edges[:-1], edges[1:]], axis=1)),
            "hovertemplate": "reward %{customdata[0]:.4g} to %{customdata[1]:.4g}: %{y} rollouts",
        }
    shape["hovertemplate"] += f"<extra>{name}</extra>"
    return {
        "type": "bar",
        "name": name,
        "x": array(x),
        "y": array(counts),
        "marker": {"color": colour, "line": {"color": LIGHT["paper"], "width": 0.5}},
    } | shape


def _ticks(whole: dict[str, Any]) -> list[str]:
    return [number(value, 4) for value in whole["values"]]


def _sentence(reward: NDArray[np.float64], whole: dict[str, Any]) -> str:
    said = describe(reward)
    n = int(np.isfinite(reward).sum())
    text = f"n = {plural(n, 'rollout')}, mean {number(said['mean'])}, std {number(said['std'])} (ddof 1)"
    text += (
        ", one bar per value"
        if whole["values"] is not None
        else f", {len(whole['counts'])} bins of equal width"
    )
    missing = reward.size - n
    return text + (f"; {integer(missing)} not scored." if missing else ".")


FIGURE = Figure(
    "reward_histogram",
    TITLE,
    "How often each reward occurs in the batch, by data source.",
    ("reward",),
    draw,
    options={"group": GROUP},
)
