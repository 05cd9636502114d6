"""Quantile bands of the rewards over the steps of a run: 5–95 %, 25–75 % and the median."""

from typing import Any

import numpy as np

from app.figures.bands import band, line, quantiles_of
from app.figures.figure import Figure, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import axis, empty, escape, figure
from app.figures.steps import OPTIONS, read_steps, step_axis
from app.formatting import integer
from storage.database import ReadSession
from storage.models import Run

TITLE = "Reward over steps"
X, Y = "step", "reward"


def draw(session: ReadSession, run: Run, options: dict[str, Any]) -> Plot:
    rows, words = read_steps(session, run, options)
    scored = [row for row in rows if (row.statistics.get("reward") or {}).get("quantiles")]
    if not scored:
        why = "no steps recorded for this run." if not rows else "no values recorded: reward."
        return empty(TITLE, why, x=X, y=Y)
    steps = np.array([row.step for row in scored])
    said = [row.statistics["reward"] for row in scored]
    at = quantiles_of(said, ("5", "25", "50", "75", "95"))
    mean = np.array([each["mean"] for each in said], dtype=float)
    links = [[row.rollouts, f"/batches/{row.batch_id}"] for row in scored]
    traces = [
        *band(steps, at["5"], at["95"], ("95 %", "5 to 95 %"), LIGHT["band-outer"]),
        *band(steps, at["25"], at["75"], ("75 %", "25 to 75 %"), LIGHT["band-inner"]),
        line("median", steps, at["50"], {"color": LIGHT["accent"], "width": 2}, links),
        line("mean", steps, mean, {"color": LIGHT["ink"], "width": 1, "dash": "dot"}, links),
    ]
    n = sum(each["n"] for each in said)
    return figure(
        traces,
        TITLE,
        f"{escape(words)}, n = {integer(n)} rewards; bands of quantiles within each step, not mean ± std.",
        showlegend=True,
        hovermode="x unified",
        xaxis=step_axis(scored),
        yaxis=axis(Y),
        meta={"n": n, "steps": len(scored), "batches": [row.batch_id for row in scored]},
    )


FIGURE = Figure(
    "reward_over_steps",
    TITLE,
    "Quantile bands of the rewards of each step of a run.",
    ("step", "reward"),
    draw,
    scope="run",
    options=OPTIONS,
)
