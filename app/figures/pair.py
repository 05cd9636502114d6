"""Two sets of advantages of a batch as a scatter, a dot per rollout; who has opposite signs stands out."""

import numpy as np
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.agreement import Pair, pair_of
from app.figures.chosen import Chosen, Floats
from app.figures.figure import Plot
from app.figures.length_advantage import spearman
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, escape, figure, outside, rule, shorten, symmetric
from app.figures.sampling import first_of
from app.figures.wording import stated, told_apart
from app.formatting import integer, number, percent, plural
from storage.database import ReadSession
from storage.models import Batch

MOST = 2000


def draw_pair(session: ReadSession, batch: Batch, one: str | None, other: str | None, title: str) -> Plot:
    """`one` on the x axis (None: the batch's default), `other` on the y axis. Raises NotFound, Conflict."""
    first, second = choosing.choose(session, batch, one), choosing.choose(session, batch, other)
    x, y = axis_names(first, second)
    why = first.why or second.why
    if why is not None:
        return empty(title, why, x=x, y=y)
    pair = pair_of(session, batch, first, second)
    if not pair.both.any():
        return empty(title, "no rollout has an advantage under both.", x=x, y=y)
    return _figure(batch, pair, (first, second), title)


def axis_names(first: Chosen, second: Chosen) -> tuple[str, str]:
    if first.why is not None or second.why is not None:
        return escape(first.label or "advantage"), escape(second.label or "advantage")
    x, y = told_apart((first, second))
    return escape(shorten(x, 60)), escape(shorten(y, 60))


def _figure(batch: Batch, pair: Pair, chosen: tuple[Chosen, Chosen], title: str) -> Plot:
    x, y, both, turned = pair.a, pair.b, pair.both, pair.opposite
    kept = first_of(np.flatnonzero(turned), np.flatnonzero(both & ~turned), MOST)
    looks = (
        ("not opposite", ~turned, "accent", "circle-open"),
        ("opposite signs", turned, "flip", "diamond"),
    )
    traces = [
        _dots(batch, pair.index[own], x[own], y[own], name, role, symbol)
        for name, which, role, symbol in looks
        if (own := kept[which[kept]]).size
    ]
    x_name, y_name = axis_names(*chosen)
    n, changed, rho = int(both.sum()), int(turned.sum()), spearman(x[both], y[both])
    text = f"{escape(stated(chosen[1]))} against {escape(stated(chosen[0]))}, n = {plural(n, 'rollout')}: "
    text += f"Spearman’s ρ {number(rho)}, {integer(changed)} ({percent(changed, n)}) with opposite signs"
    text += outside(x[both]) + outside(y[both])
    text += f"; {integer(kept.size)} of them drawn" if kept.size < n else ""
    return figure(
        traces,
        title,
        text + "; one mean over unmasked tokens per rollout.",
        height=380,
        showlegend=True,
        shapes=[rule(0.0), rule(0.0, vertical=True)],
        xaxis=axis(x_name, range=symmetric(x[both])),
        yaxis=axis(y_name, range=symmetric(y[both])),
        meta={"n": n, "shown": int(kept.size), "opposite": changed, "spearman": rho},
    )


def _dots(
    batch: Batch, index: NDArray[np.int64], x: Floats, y: Floats, name: str, role: str, symbol: str
) -> Plot:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": array(x),
        "y": array(y),
        "customdata": [[i, f"/batches/{batch.id}/rollouts/{i}"] for i in index.tolist()],
        "marker": {"color": LIGHT[role], "size": 6, "symbol": symbol, "opacity": 0.75},
        "hovertemplate": f"rollout #%{{customdata[0]}}<br>x %{{x:.4g}}<br>y %{{y:.4g}}<extra>{name}</extra>",
    }
