"""Quantile bands of the advantages over the steps of a run: of one convention, or of the recorded ones."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.bands import band, line, quantiles_of
from app.figures.chosen import RECORDED
from app.figures.figure import Figure, Option, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import axis, empty, escape, figure, outside, proportionate, rule, symmetric
from app.figures.steps import OPTIONS, read_steps, step_axis
from app.formatting import integer
from storage import spreads
from storage.database import ReadSession
from storage.models import Run
from storage.runs import StepRow
from storage.spreads import Spread

TITLE = "Advantage over steps"
X, Y = "step", "advantage"
ADVANTAGES = Option(
    "text", "A convention, or `recorded`; default: the convention that most steps have, else the recorded."
)
#: What a summary of an estimate calls the quantiles, in per cent as a batch's statistics do.
NAMED = {"0.05": "5", "0.25": "25", "0.5": "50", "0.75": "75", "0.95": "95"}
KEYS = tuple(NAMED.values())
Said = dict[str, dict[str, Any]]


def draw(session: ReadSession, run: Run, options: dict[str, Any]) -> Plot:
    rows, words = read_steps(session, run, options)
    if not rows:
        return empty(TITLE, "no steps recorded for this run.", x=X, y=Y)
    label, said = _told(session, run, rows, options["advantages"])
    known = [row for row in rows if row.batch_id in said]
    if not known:
        why = f"no advantages: no step of this run has {escape(label)}." if label else NOTHING
        return empty(TITLE, why, x=X, y=Y)
    return _figure(known, [said[row.batch_id] for row in known], label, words, len(rows))


NOTHING = "no advantages: none are recorded, and no estimate of a step is finished yet."


def _told(session: ReadSession, run: Run, rows: Sequence[StepRow], asked: Any) -> tuple[str, Said]:
    """What is drawn in words, and batch -> count, mean and quantiles of its advantages."""
    recorded = {row.batch_id: _recorded(row) for row in rows if _recorded(row).get("quantiles")}
    if asked == RECORDED:
        return "recorded advantages, one mean per rollout", recorded
    every = spreads.of_run(session, run.id, [row.batch_id for row in rows])
    found = [each for each in every if each.quantiles]
    counts = Counter(name for name, _ in {(each.convention, each.batch_id) for each in found})
    name = asked if asked is not None else max(counts, key=lambda key: (counts[key], key), default=None)
    if name is None:
        return "recorded advantages, one mean per rollout" if recorded else "", recorded
    mine = {each.batch_id: _said(each) for each in found if each.convention == name}
    units = {each.over for each in found if each.convention == name}
    unit = f", over {' or '.join(sorted(units))}" if units else ""
    return f"{name} (recomputed{unit})", mine


def _recorded(row: StepRow) -> dict[str, Any]:
    return row.statistics.get("advantage") or {}


def _said(spread: Spread) -> dict[str, Any]:
    at = {NAMED[key]: value for key, value in spread.quantiles.items() if key in NAMED}
    return {"n": spread.count, "mean": spread.mean, "quantiles": at}


def _figure(
    known: Sequence[StepRow], said: Sequence[dict[str, Any]], label: str, words: str, of: int
) -> Plot:
    steps = np.array([row.step for row in known])
    at = quantiles_of(said, KEYS)
    mean = np.array([each["mean"] for each in said], dtype=np.float64)
    links = [[int(each["n"]), f"/batches/{row.batch_id}"] for row, each in zip(known, said, strict=True)]
    dotted = {"color": LIGHT["ink"], "width": 1, "dash": "dot"}
    n = sum(int(each["n"]) for each in said)
    missing = f"; {of - len(known)} of the steps have none" if len(known) < of else ""
    ends: NDArray[np.float64] = np.concatenate([at["5"], at["95"]])
    return figure(
        [
            *band(steps, at["5"], at["95"], ("95 %", "5 to 95 %"), LIGHT["band-outer"]),
            *band(steps, at["25"], at["75"], ("75 %", "25 to 75 %"), LIGHT["band-inner"]),
            line("median", steps, at["50"], {"color": LIGHT["accent"], "width": 2}, links, "values"),
            line("mean", steps, mean, dotted, links, "values"),
        ],
        TITLE,
        f"{escape(label)}, {escape(words)}, n = {integer(n)} values{missing}; bands of quantiles within "
        f"each step{outside(ends)}.",
        showlegend=True,
        hovermode="x unified",
        shapes=[rule(0.0)],
        xaxis=step_axis(known),
        yaxis=axis(Y) if proportionate(ends).all() else axis(Y, range=symmetric(ends)),
        meta={"n": n, "steps": len(known), "batches": [row.batch_id for row in known], "shown": label},
    )


FIGURE = Figure(
    "advantage_over_steps",
    TITLE,
    "Quantile bands of the advantages of each step of a run, of one convention or as recorded.",
    ("step", "estimates of the steps, or recorded advantages"),
    draw,
    scope="run",
    options=OPTIONS | {"advantages": ADVANTAGES},
)
