"""The rewards of each prompt group as a strip of dots. Groups without signal are dimmed and say so."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.figure import GROUP, Figure, Option, Plot
from app.figures.group_names import group_names
from app.figures.kept import columns_of
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty
from app.figures.strips import FROM, GROUPS, Strip, dots, group_label, strip, strip_figure
from app.figures.subject import group_members, grouped
from app.findings.near_zero_variance_groups import near_zero
from app.findings.reading import read_view
from app.findings.view import GroupStatistics, View, group_statistics
from app.formatting import integer, number, plural
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Rewards of each group"
X, Y = "reward", "prompt group"
#: Name, colour, symbol and opacity of the dots of a group: with signal, without, with next to none.
LOOKS = (
    ("rewards differ", "accent", "circle", 0.9),
    ("no signal", "dim", "circle-open", 0.8),
    ("differ by next to nothing", "warning", "diamond", 0.8),
)
SORTS = ("group", "std", "mean", "size")


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    if not np.isfinite(columns.reward[members]).any():
        return empty(TITLE, "no values recorded: reward.", x=X, y=Y)
    view = read_view(session, batch.id, deep=False, columns=columns)
    groups = group_statistics(view.reward, view.group, view.groups)
    numbers = np.unique(columns.group_no)
    chosen = np.unique(columns.group_no[members])
    order = ordered(numbers, groups, view, options["sort"])
    laid = strip(columns, columns.reward, order[np.isin(order, chosen)], options)
    rows = np.searchsorted(numbers, laid.numbers)
    near = near_zero(view, groups) if grouped(batch, columns) else np.zeros(view.groups, dtype=bool)
    return _figure(session, batch, columns, laid, groups, rows, near)


def ordered(numbers: NDArray[np.int64], groups: GroupStatistics, view: View, sort: str) -> NDArray[np.int64]:
    """Group numbers as they should be shown: as stored, or the largest std, mean or size first."""
    keys = {"std": groups.std, "mean": groups.mean, "size": view.sizes}
    if sort == "group":
        return numbers
    return numbers[np.argsort(-np.nan_to_num(keys[sort], nan=-np.inf), kind="stable")]


def _figure(
    session: ReadSession,
    batch: Batch,
    columns: rollouts.Columns,
    laid: Strip,
    groups: GroupStatistics,
    rows: NDArray[np.int64],
    near: NDArray[np.bool_],
) -> Plot:
    names = group_names(session, batch, laid.numbers)
    labels = [
        group_label(names[n], _note(groups, r, bool(near[r])))
        for n, r in zip(laid.numbers, rows, strict=True)
    ]
    alone = groups.scored[rows] < 2
    kinds = np.where(groups.constant[rows] | alone, 1, np.where(near[rows], 2, 0))[laid.row]
    traces = [
        dots(batch, columns, laid, kinds == kind, name, role, symbol, of="reward", opacity=opacity)
        for kind, (name, role, symbol, opacity) in enumerate(LOOKS)
        if (kinds == kind).any()
    ]
    traces.append(_means(groups, rows))
    return strip_figure(traces, TITLE, _sentence(laid, groups, rows, near), laid, labels, xaxis=axis(X))


def _note(groups: GroupStatistics, row: int, near: bool) -> str:
    n = int(groups.scored[row])
    if n < 2:
        return f"n={n}"
    if groups.constant[row]:
        return f"n={n} no signal"
    return f"n={n} σ {number(float(groups.std[row]), 2)}" + (" !" if near else "")


def _means(groups: GroupStatistics, rows: NDArray[np.int64]) -> Plot:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "group mean",
        "x": array(groups.mean[rows]),
        "y": array(np.arange(rows.size) + 0.12),
        "marker": {"symbol": "line-ns", "size": 5, "line": {"color": LIGHT["ink"], "width": 2}},
        "hovertemplate": "group mean %{x:.4g}<extra></extra>",
    }


def _sentence(laid: Strip, groups: GroupStatistics, rows: NDArray[np.int64], near: NDArray[np.bool_]) -> str:
    shown = rows.size
    constant = int(groups.constant[rows].sum())
    text = f"{plural(shown, 'group')}"
    if shown < laid.total:
        text = f"groups {laid.first + 1} to {laid.first + shown} of {integer(laid.total)}"
    text += f", n = {plural(int(laid.place.size), 'rollout')}; σ has ddof 1; "
    text += f"{constant} with no signal (all rewards equal)"
    lone = int((groups.scored[rows] == 1).sum())
    text += f", {lone} with a single scored rollout" if lone else ""
    few = int(near[rows].sum())
    return text + (f", {few} differing by next to nothing (marked !)." if few else ".")


FIGURE = Figure(
    "group_rewards",
    TITLE,
    "The rewards of every prompt group, one dot per rollout; groups without signal dimmed.",
    ("reward",),
    draw,
    options={
        "group": GROUP,
        "sort": Option("choice", "Order of the groups, largest first.", "group", SORTS),
        "groups": GROUPS,
        "from": FROM,
    },
)
