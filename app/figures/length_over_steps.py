"""How long responses are over the steps of a run, by outcome: does a run grow long where it fails?"""

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
from storage.runs import StepRow

TITLE = "Length over steps"
X, Y = "step", "response length (tokens)"
KEYS = ("5", "25", "50", "75", "95")
#: Key in the statistics -> name, colour, how its line is drawn: the hue never stands alone.
OUTCOMES = (
    ("pass", "passes: median", "positive", "solid"),
    ("fail", "fails: median", "negative", "dash"),
)


def draw(session: ReadSession, run: Run, options: dict[str, Any]) -> Plot:
    rows, words = read_steps(session, run, options)
    known = [row for row in rows if length_of(row, "all").get("quantiles")]
    if not known:
        why = "no steps recorded for this run." if not rows else "no values recorded: response tokens."
        return empty(TITLE, why, x=X, y=Y)
    steps = np.array([row.step for row in known])
    links = [[row.rollouts, f"/batches/{row.batch_id}"] for row in known]
    at = quantiles_of([length_of(row, "all") for row in known], KEYS)
    traces = [
        *band(steps, at["5"], at["95"], ("95 %", "5 to 95 %"), LIGHT["band-outer"]),
        *band(steps, at["25"], at["75"], ("75 %", "25 to 75 %"), LIGHT["band-inner"]),
    ]
    parted = [each for each in OUTCOMES if any(length_of(row, each[0]).get("quantiles") for row in known)]
    for key, name, role, dash in parted or [("all", "median", "accent", "solid")]:
        median = quantiles_of([length_of(row, key) for row in known], ("50",))["50"]
        look = {"color": LIGHT[role], "width": 2, "dash": dash}
        traces.append(line(name, steps, median, look, links))
    n = sum(int(row.statistics["length"]["n"]) for row in known)
    return figure(
        traces,
        TITLE,
        f"{escape(words)}, n = {integer(n)} responses; "
        + "bands of quantiles within each step, "
        + ("and the medians by outcome." if parted else "no rewards tell outcomes apart."),
        showlegend=True,
        hovermode="x unified",
        xaxis=step_axis(known),
        yaxis=axis(Y, rangemode="tozero"),
        meta={"n": n, "steps": len(known), "batches": [row.batch_id for row in known]},
    )


def length_of(row: StepRow, key: str) -> dict[str, Any]:
    """The step's lengths of all rollouts, or of one outcome."""
    return (row.statistics.get("length") or {}).get(key) or {}


FIGURE = Figure(
    "length_over_steps",
    TITLE,
    "Quantile bands of the response lengths of each step of a run, with the medians by outcome.",
    ("step", "response tokens"),
    draw,
    scope="run",
    options=OPTIONS,
)
