"""Whose tokens the loss listens to: shares of the gradient by length, response or group; the policy ratio."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures import ratios
from app.figures.figure import Figure, Option, Plot
from app.figures.group_names import group_names
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, escape, figure, shorten
from app.figures.sampling import evenly
from app.figures.weights import OPTIONS, Loss, effective, mode_of, read_loss, shares, token_weights
from app.figures.wording import stated
from app.formatting import integer, number, percent, plural
from estimators.loss_weights import LossMode
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Loss weight"
Y = "share of the gradient (%)"
BINS, MOST_GROUPS, MOST = 8, 32, 2000
BY = ("length", "response", "group", "ratio")
AXES = {
    "length": "response length (tokens)",
    "response": "response length (tokens)",
    "group": "prompt group",
    "ratio": ratios.X,
}
Floats = NDArray[np.float64]


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    by = str(options["by"])
    if by == "ratio":
        return ratios.draw(session, batch, options, TITLE)
    loss = read_loss(session, batch, options)
    if loss.why is not None:
        return empty(TITLE, loss.why, x=AXES[by], y=Y)
    mode = mode_of(batch, options["mode"])
    share = shares(loss, token_weights(loss, mode, options["scale"]))
    if not share.any():
        return empty(TITLE, "no gradient: every advantage is 0.", x=AXES[by], y=Y)
    if by == "length":
        return _by_length(loss, mode, share)
    if by == "group":
        return _by_group(session, batch, loss, mode, share)
    return _by_response(batch, loss, mode, share)


def bins_of(tokens: NDArray[np.int64]) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Shortest, longest and members of up to eight stretches of about equally many responses; equal lengths
    are never parted. Responses without an unmasked token are in none."""
    live = np.flatnonzero(tokens > 0)
    order = live[np.argsort(tokens[live], kind="stable")]
    own = tokens[order]
    wanted = np.arange(1, BINS) * order.size // BINS
    edges = np.unique([0, *np.searchsorted(own, own[wanted]), order.size]) if order.size else np.zeros(0, int)
    parts = [order[a:b] for a, b in pairwise(edges.tolist()) if b > a]
    return [(int(tokens[part[0]]), int(tokens[part[-1]]), part) for part in parts]


def _by_length(loss: Loss, mode: LossMode, share: Floats) -> Plot:
    bins = bins_of(loss.tokens)
    labels = [str(a) if a == b else f"{a}–{b}" for a, b, _ in bins]
    members = [part for _, _, part in bins]
    whole = max(int(loss.tokens.sum()), 1)
    traces = _stacked(loss, share, members)
    traces += [
        _marks(
            "share of tokens", [100.0 * float(loss.tokens[part].sum()) / whole for part in members], "diamond"
        ),
        _marks(
            "share of responses",
            [100.0 * part.size / int((loss.tokens > 0).sum()) for part in members],
            "line-ew",
        ),
    ]
    last, tokens = members[-1], percent(float(loss.tokens[members[-1]].sum()), whole)
    text = f"the longest {integer(last.size)} ({percent(last.size, int((loss.tokens > 0).sum()))}) have "
    text += f"{percent(float(share[last].sum()))} of the gradient, {tokens} of the tokens"
    where = {"tickvals": list(range(len(labels))), "ticktext": labels}
    return _figure(
        traces, loss, mode, share, text, axis(AXES["length"], **where), barmode="stack", bargap=0.25
    )


def _by_group(session: ReadSession, batch: Batch, loss: Loss, mode: LossMode, share: Floats) -> Plot:
    numbers, group = np.unique(loss.columns.group_no, return_inverse=True)
    total = np.bincount(group, share, minlength=numbers.size)
    order = np.argsort(-total, kind="stable")[:MOST_GROUPS]
    names = group_names(session, batch, numbers[order].tolist())
    members = [np.flatnonzero(group == place) for place in order.tolist()]
    links = [f"/batches/{batch.id}/groups/{number}" for number in numbers[order].tolist()]
    traces = _stacked(loss, share, members, links)
    labels = [escape(shorten(names[number], 16)) for number in numbers[order].tolist()]
    dead = int((total <= 0).sum())
    text = f"the heaviest of {plural(int(numbers.size), 'group')} has {percent(float(total.max()))} of it"
    text += f", {integer(dead)} have none" if dead else ""
    text += f"; the {integer(order.size)} heaviest drawn" if order.size < numbers.size else ""
    where = {"tickvals": list(range(len(labels))), "ticktext": labels}
    return _figure(
        traces, loss, mode, share, text, axis(AXES["group"], **where), barmode="stack", bargap=0.15
    )


def _by_response(batch: Batch, loss: Loss, mode: LossMode, share: Floats) -> Plot:
    live = np.flatnonzero(loss.tokens > 0)
    order = live[np.argsort(-share[live], kind="stable")]
    # The heaviest of all, and a picture of the others.
    kept = np.concatenate([order[: MOST // 4], evenly(order[MOST // 4 :], MOST - MOST // 4)])
    traces = [
        _dots(batch, loss, share, own, name, role, symbol)
        for name, which, role, symbol in _ways(loss)
        if (own := kept[which[kept]]).size
    ]
    tenth = order[: max(1, order.size // 10)]
    text = f"the heaviest {integer(tenth.size)} have {percent(float(share[tenth].sum()))} of the gradient"
    text += f"; {integer(kept.size)} of {integer(live.size)} drawn" if kept.size < live.size else ""
    return _figure(traces, loss, mode, share, text, axis(AXES["response"], rangemode="tozero"))


def _ways(loss: Loss) -> tuple[tuple[str, NDArray[np.bool_], str, str], ...]:
    """Name, members, colour and symbol: which way a response is pushed."""
    with np.errstate(invalid="ignore"):
        up, down = loss.direction > 0, loss.direction < 0
    if loss.size is None:
        return (("weight in the loss", np.ones(up.size, dtype=bool), "accent", "circle"),)
    return (
        ("reinforced", up, "positive", "circle"),
        ("suppressed", down, "negative", "circle-open"),
        ("mean of 0", ~(up | down), "dim", "diamond-open"),
    )


def _stacked(
    loss: Loss, share: Floats, members: list[NDArray[np.int64]], links: list[str] | None = None
) -> list[Plot]:
    """Bars of the shares, by the way that responses are pushed; the pattern goes with the colour."""
    patterns = {"suppressed": "/", "mean of 0": "."}
    traces = []
    for name, which, role, _ in _ways(loss):
        heights = [100.0 * float(share[part][which[part]].sum()) for part in members]
        if not any(heights):
            continue
        counts = [int(which[part].sum()) for part in members]
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": list(range(len(members))),
                "y": array(heights),
                "customdata": [[n, *([links[i]] if links else [])] for i, n in enumerate(counts)],
                "marker": {
                    "color": LIGHT[role],
                    "line": {"width": 0, "color": LIGHT[role]},
                    "pattern": {
                        "shape": patterns.get(name, ""),
                        "fillmode": "overlay",
                        "size": 6,
                        "solidity": 0.25,
                        "fgcolor": LIGHT["paper"],
                    },
                },
                "hovertemplate": f"{name}: %{{y:.3g}} % of the gradient<br>"
                "%{customdata[0]} responses<extra></extra>",
            }
        )
    return traces


def _marks(name: str, values: list[float], symbol: str) -> Plot:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(range(len(values))),
        "y": array(values),
        "marker": {
            "symbol": symbol,
            "size": 16 if symbol == "line-ew" else 8,
            "color": LIGHT["ink"],
            "line": {"color": LIGHT["ink"], "width": 2 if symbol == "line-ew" else 0},
        },
        "hovertemplate": f"{name}: %{{y:.3g}} %<extra></extra>",
    }


def _dots(
    batch: Batch, loss: Loss, share: Floats, own: NDArray[np.int64], name: str, role: str, symbol: str
) -> Plot:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": array(loss.tokens[own]),
        "y": array(100.0 * share[own]),
        "customdata": [[i, f"/batches/{batch.id}/rollouts/{i}"] for i in loss.columns.index[own].tolist()],
        "marker": {"color": LIGHT[role], "size": 6, "symbol": symbol, "opacity": 0.75},
        "hovertemplate": "rollout #%{customdata[0]}<br>%{x} tokens<br>%{y:.3g} % of the gradient"
        f"<extra>{name}</extra>",
    }


def _figure(
    traces: list[Plot], loss: Loss, mode: LossMode, share: Floats, text: str, x: dict[str, Any], **layout: Any
) -> Plot:
    n = int((loss.tokens > 0).sum())
    what = f"weight in the loss times |A| of {escape(stated(loss.chosen))}"
    what = what if loss.size is not None else "weight in the loss (no advantages)"
    return figure(
        traces,
        TITLE,
        f"{mode.name} ({mode.framework}), {what}, n = {plural(n, 'response')}: {text}; as uneven as "
        f"{number(effective(share))} equally heavy responses.",
        height=360,
        showlegend=True,
        xaxis=x,
        yaxis=axis(Y, rangemode="tozero"),
        meta={"n": n, "mode": mode.name, "effective": effective(share)},
        **layout,
    )


FIGURE = Figure(
    "loss_weights",
    TITLE,
    "Share of the gradient by length, response and group under a loss aggregation, and the policy ratio.",
    (
        "response tokens",
        "an estimate, or recorded advantages",
        "for the ratio: old_log_probs and rollout_log_probs",
    ),
    draw,
    options={"by": Option("choice", "What the shares are of.", "length", BY)} | OPTIONS | ratios.OPTIONS,
)
