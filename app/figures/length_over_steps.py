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
OUTCOMES = (("pass", "passes", "positive", "solid"), ("fail", "fails", "negative", "dash"))
#: Bands of two outcomes overlap, so both let the other through.
OPACITY = 0.22


def draw(session: ReadSession, run: Run, options: dict[str, Any]) -> Plot:
    rows, words = read_steps(session, run, options)
    known = [row for row in rows if length_of(row, "all").get("quantiles")]
    if not known:
        why = "no steps recorded for this run." if not rows else "no values recorded: response tokens."
        return empty(TITLE, why, x=X, y=Y)
    steps = np.array([row.step for row in known])
    links = [[row.rollouts, f"/batches/{row.batch_id}"] for row in known]
    parted = [each for each in OUTCOMES if any(length_of(row, each[0]).get("quantiles") for row in known)]
    whole = quantiles_of([length_of(row, "all") for row in known], KEYS)
    traces: list[Plot] = []
    for key, name, role, dash in parted:
        at = quantiles_of([length_of(row, key) for row in known], KEYS)
        edges = ("75 %", f"{name}: 25 to 75 %")
        traces += band(steps, at["25"], at["75"], edges, LIGHT[role], opacity=OPACITY)
        traces.append(line(f"{name}: median", steps, at["50"], look(role, 2, dash), links))
    if not parted:
        traces += band(steps, whole["25"], whole["75"], ("75 %", "25 to 75 %"), LIGHT["band-inner"])
        traces.append(line("median", steps, whole["50"], look("accent", 2), links))
    traces.append(line("95 % of all", steps, whole["95"], look("muted", 1, "dot"), links))
    n = sum(int(row.statistics["length"]["n"]) for row in known)
    return figure(
        traces,
        TITLE,
        f"{escape(words)}, n = {integer(n)} responses; "
        + ("passing and failing ones apart, " if parted else "no rewards tell outcomes apart, ")
        + "bands of quantiles within each step.",
        showlegend=True,
        hovermode="x unified",
        xaxis=step_axis(known),
        yaxis=axis(Y, rangemode="tozero"),
        meta={"n": n, "steps": len(known), "batches": [row.batch_id for row in known]},
    )


def length_of(row: StepRow, key: str) -> dict[str, Any]:
    """The step's lengths of all rollouts, or of one outcome."""
    return (row.statistics.get("length") or {}).get(key) or {}


def look(role: str, width: int, dash: str = "solid") -> dict[str, Any]:
    return {"color": LIGHT[role], "width": width, "dash": dash}


FIGURE = Figure(
    "length_over_steps",
    TITLE,
    "Quantile bands of the response lengths of each step of a run, by outcome.",
    ("step", "response tokens"),
    draw,
    scope="run",
    options=OPTIONS,
)
