"""The signal budget over the steps of a run: what share of the groups has something to teach."""

from typing import Any

import numpy as np

from app.figures.figure import Figure, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, escape, figure
from app.figures.steps import OPTIONS, read_steps, step_axis
from app.findings.statistics import SIGNALS
from app.formatting import integer
from storage.database import ReadSession
from storage.models import Run

TITLE = "Signal budget over steps"
X, Y = "step", "share of groups (%)"
#: Bottom to top: signal first, then what carries none. A pattern goes with each colour.
LAYERS = {
    "mixed": ("mixed: rewards differ", "signal-mixed", ""),
    "near_zero": ("differ by next to nothing", "signal-near", "."),
    "pass": ("all pass", "signal-pass", "/"),
    "fail": ("all fail", "signal-fail", "\\"),
    "single": ("one scored rollout", "signal-flat", "-"),
    "unscored": ("not scored", "signal-none", "|"),
}
assert set(LAYERS) == set(SIGNALS)


def draw(session: ReadSession, run: Run, options: dict[str, Any]) -> Plot:
    rows, words = read_steps(session, run, options)
    known = [row for row in rows if row.statistics.get("signal")]
    if not known:
        why = (
            "no steps recorded for this run."
            if not rows
            else "no values recorded: prompt groups with rewards."
        )
        return empty(TITLE, why, x=X, y=Y)
    steps = np.array([row.step for row in known])
    counts = {name: np.array([row.statistics["signal"]["groups"][name] for row in known]) for name in SIGNALS}
    total = np.maximum(np.sum(list(counts.values()), axis=0), 1)
    links = [f"/batches/{row.batch_id}" for row in known]
    traces = [
        _bars(label, steps, counts[name], total, LIGHT[role], pattern, links)
        for name, (label, role, pattern) in LAYERS.items()
        if counts[name].any()
    ]
    cut = _truncated(known)
    if np.isfinite(cut).any():
        traces.append(_cut(steps, cut))
    groups = int(np.sum([count.sum() for count in counts.values()]))
    share = float(counts["mixed"].sum()) / max(groups, 1)
    return figure(
        traces,
        TITLE,
        f"{escape(words)}, n = {integer(groups)} groups, {100 * share:.0f} % of them with rewards that "
        "differ; the rest teaches a group estimator nothing, or noise.",
        barmode="stack",
        bargap=0.05,
        showlegend=True,
        hovermode="x unified",
        xaxis=step_axis(known),
        yaxis=axis(Y, range=[0, 100], ticksuffix=" %"),
        meta={"n": groups, "steps": len(known), "batches": [row.batch_id for row in known]},
    )


def _bars(
    name: str, steps: Any, counts: Any, total: Any, colour: str, pattern: str, links: list[str]
) -> Plot:
    return {
        "type": "bar",
        "name": name,
        "x": array(steps),
        "y": array(100.0 * counts / total),
        "customdata": [[int(count), link] for count, link in zip(counts.tolist(), links, strict=True)],
        "marker": {
            "color": colour,
            "line": {"width": 0, "color": colour},
            "pattern": {
                "shape": pattern,
                "fillmode": "overlay",
                "size": 5,
                "solidity": 0.25,
                "fgcolor": LIGHT["paper"],
            },
        },
        "hovertemplate": "%{y:.0f} % (%{customdata[0]} groups)",
    }


def _truncated(rows: list[Any]) -> Any:
    """Per cent of the rollouts of each step that were cut off; NaN where nothing says so."""
    said = [row.statistics.get("truncated") or {} for row in rows]
    return np.array([100.0 * each["n"] / each["known"] if each.get("known") else np.nan for each in said])


def _cut(steps: Any, cut: Any) -> Plot:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "truncated rollouts",
        "x": array(steps),
        "y": array(cut),
        "line": {"color": LIGHT["ink"], "width": 1.5, "dash": "dash"},
        "marker": {"size": 4, "color": LIGHT["ink"]},
        "hovertemplate": "%{y:.0f} % of rollouts",
    }


FIGURE = Figure(
    "signal_over_steps",
    TITLE,
    "Groups that fail, pass, differ or hardly differ at each step of a run, and truncated rollouts.",
    ("step", "reward", "prompt groups"),
    draw,
    scope="run",
    options=OPTIONS,
)
