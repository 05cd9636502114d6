"""Reward or advantage against response length, with Spearman's rho: does being long pay?"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.extent import Extent, extent
from app.figures.figure import ESTIMATE, GROUP, Figure, Option, Plot
from app.figures.kept import columns_of
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, figure, outside, proportionate, rule, symmetric
from app.figures.subject import group_members
from app.figures.wording import stated
from app.findings.statistics import pass_above
from app.formatting import integer, number, plural
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Length against advantage"
X = "response length ({}s)"
MOST = 2000
STRATA = 20
Floats = NDArray[np.float64]


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    what = options["y"]
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    label, values = "reward", columns.reward
    if what == "advantage":
        chosen = choosing.choose(session, batch, options["estimate"])
        if chosen.why is not None:
            return empty(TITLE, chosen.why, x=X.format("token"), y=what)
        label, values = stated(chosen), choosing.per_rollout(session, batch, chosen, columns)
    size = extent(session, batch, columns)
    if not size.known:
        why = "no values recorded: neither response tokens nor texts, so lengths are not known."
        return empty(TITLE, why, x=X.format("token"), y=what)
    usable = members[(size.lengths[members] >= 0) & np.isfinite(values[members])]
    if not usable.size:
        return empty(TITLE, f"no values recorded: {what}.", x=X.format(size.unit), y=what)
    return _figure(batch, columns, size, usable, values, what, label)


def ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, member, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: Floats = (last - (counts - 1) / 2)[member]
    return mean


def spearman(one: Floats, other: Floats) -> float | None:
    """Spearman's rho with ties; None for fewer than three pairs or a constant side."""
    if one.size < 3:
        return None
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size > 0 else None


def stratified(length: NDArray[np.int64], outcome: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Up to `most` positions, the same share of every (length, outcome) stratum: each evenly from its sorted
    members, so extremes stay and the same batch always gives the same choice."""
    if length.size <= most:
        return np.arange(length.size)
    order = np.argsort(length, kind="stable")
    stratum = np.empty(length.size, dtype=np.int64)
    stratum[order] = np.arange(length.size) * STRATA // length.size
    stratum = stratum * 2 + outcome
    kept: list[NDArray[np.int64]] = []
    for number_of in np.unique(stratum):
        own = order[stratum[order] == number_of]
        share = max(1, own.size * most // length.size)
        kept.append(own[np.unique(np.linspace(0, own.size - 1, share).round().astype(np.int64))])
    return np.sort(np.concatenate(kept))


def _figure(
    batch: Batch,
    columns: rollouts.Columns,
    size: Extent,
    usable: NDArray[np.int64],
    values: Floats,
    what: str,
    label: str,
) -> Plot:
    length, y = size.lengths[usable], values[usable]
    with np.errstate(invalid="ignore"):
        passed = columns.reward[usable] > pass_above(columns.reward)
    rho = spearman(length.astype(np.float64), y)
    kept = stratified(length, passed, MOST)
    looks = (
        ("passes", passed, "positive", "circle"),
        ("fails", ~passed & np.isfinite(columns.reward[usable]), "negative", "circle-open"),
        ("not scored", ~np.isfinite(columns.reward[usable]), "dim", "x-thin-open"),
    )
    traces = [
        _dots(batch, columns.index[usable[own]], length[own], y[own], name, role, symbol, what, size.unit)
        for name, which, role, symbol in looks
        if (own := kept[which[kept]]).size
    ]
    named = "advantage (mean over unmasked tokens)" if size.unit == "token" else "advantage"
    return figure(
        traces,
        "Length against reward" if what == "reward" else TITLE,
        _sentence(label, usable.size, kept.size, rho, outside(y) + size.note),
        showlegend=True,
        shapes=[rule(0.0)] if what == "advantage" else [],
        xaxis=axis(X.format(size.unit), rangemode="tozero"),
        yaxis=axis(what if what == "reward" else named, **_range(y)),
        meta={"n": int(usable.size), "shown": int(kept.size), "spearman": rho, "unit": size.unit},
    )


def _dots(
    batch: Batch,
    index: NDArray[np.int64],
    length: NDArray[np.int64],
    y: Floats,
    name: str,
    role: str,
    symbol: str,
    what: str,
    unit: str,
) -> Plot:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": array(length),
        "y": array(y),
        "customdata": [[i, f"/batches/{batch.id}/rollouts/{i}"] for i in index.tolist()],
        "marker": {"color": LIGHT[role], "size": 6, "symbol": symbol, "opacity": 0.7},
        "hovertemplate": f"rollout #%{{customdata[0]}}<br>%{{x}} {unit}s<br>{what} "
        f"%{{y:.4g}}<extra>{name}</extra>",
    }


def _range(y: Floats) -> dict[str, Any]:
    """The axis finds its own range, unless some values are out of all proportion."""
    return {} if proportionate(y).all() else {"range": symmetric(y)}


def _sentence(label: str, n: int, shown: int, rho: float | None, left: str) -> str:
    text = f"{label}, n = {plural(n, 'rollout')}, Spearman ρ {number(rho)}"
    if rho is None:
        text += " (not defined)"
    text += left
    return text + (
        f"; {integer(shown)} of them drawn, the same share of every length and outcome." if shown < n else "."
    )


FIGURE = Figure(
    "length_advantage",
    TITLE,
    "Reward or advantage of every rollout against its length, with Spearman's rho.",
    ("response tokens or text", "reward or an estimate"),
    draw,
    options={
        "y": Option("choice", "What stands on the y axis.", "advantage", ("advantage", "reward")),
        "estimate": ESTIMATE,
        "group": GROUP,
    },
)
