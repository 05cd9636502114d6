"""The advantage of each rollout, by prompt group: who is pushed up and who is pushed down, and how far."""

from typing import Any

import numpy as np

from app.figures import chosen as choosing
from app.figures.figure import ESTIMATE, GROUP, Figure, Plot
from app.figures.group_names import group_names
from app.figures.kept import columns_of
from app.figures.plotly import axis, empty, outside, rule, symmetric
from app.figures.strips import FROM, GROUPS, Strip, dots, group_label, strip, strip_figure
from app.figures.subject import group_members
from app.figures.wording import stated
from app.formatting import integer, number, plural
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch

TITLE = "Advantages of each group"
X, Y = "advantage (mean over the rollout's unmasked tokens)", "prompt group"


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    chosen = choosing.choose(session, batch, options["estimate"])
    if chosen.why is not None:
        return empty(TITLE, chosen.why, x=X, y=Y)
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    values = choosing.per_rollout(session, batch, chosen, columns)
    if not np.isfinite(values[members]).any():
        return empty(
            TITLE, f"no values: {chosen.label} has no advantage for any of these rollouts.", x=X, y=Y
        )
    laid = strip(columns, values, np.unique(columns.group_no[members]), options)
    total = np.nansum(np.abs(values))
    return _figure(session, batch, columns, laid, chosen, float(total))


def _figure(
    session: ReadSession,
    batch: Batch,
    columns: rollouts.Columns,
    laid: Strip,
    chosen: choosing.Chosen,
    total: float,
) -> Plot:
    names = group_names(session, batch, laid.numbers)
    shares = np.bincount(laid.row, np.abs(laid.x), minlength=len(laid.numbers)) / (total or 1.0)
    labels = [
        group_label(names[group_no], f"{100 * share:.0f} %")
        for group_no, share in zip(laid.numbers, shares.tolist(), strict=True)
    ]
    kinds = (
        ("reinforced", laid.x > 0, "positive", "circle"),
        ("suppressed", laid.x < 0, "negative", "circle-open"),
        ("zero", laid.x == 0, "dim", "diamond-open"),
    )
    traces = [
        dots(batch, columns, laid, which, name, role, symbol, of="advantage")
        for name, which, role, symbol in kinds
        if which.any()
    ]
    tokens = bool((columns.length >= 0).any())
    reach = axis(X if tokens else "advantage", range=symmetric(laid.x))
    shapes = [rule(0.0, vertical=True)]
    return strip_figure(traces, TITLE, _sentence(laid, chosen), laid, labels, xaxis=reach, shapes=shapes)


def _sentence(laid: Strip, chosen: choosing.Chosen) -> str:
    shown = len(laid.numbers)
    where = plural(shown, "group")
    if shown < laid.total:
        where = f"groups {laid.first + 1} to {laid.first + shown} of {integer(laid.total)}"
    reach = number(float(np.abs(laid.x).max()))
    return (
        f"{stated(chosen)}, {where}, n = {plural(int(laid.place.size), 'rollout')}, max |A| "
        f"{reach}{outside(laid.x)}; the per cent are a group's share of the batch's total |A| per rollout."
    )


FIGURE = Figure(
    "group_advantages",
    TITLE,
    "The advantage of every rollout, by prompt group, and each group's share of the total.",
    ("an estimate, or recorded advantages",),
    draw,
    options={"estimate": ESTIMATE, "group": GROUP, "groups": GROUPS, "from": FROM},
)
