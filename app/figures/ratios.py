"""The ratio of the trainer's to the sampler's probability of each token, and what clipping would do to it.

With `old_log_probs` from the trainer and `rollout_log_probs` from the sampler the ratio is π_old / π_rollout,
1 where both engines agree. It is what PPO sees in its first pass where it takes the sampler's for the old.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.chosen import Floats
from app.figures.figure import Option, Plot
from app.figures.kept import columns_of
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, figure
from app.formatting import integer, number, percent
from estimators.aggregates import uniform_histogram
from estimators.policy_ratio import HIGH, INSIDE, LOW, policy_ratio
from storage.database import ReadSession
from storage.models import Batch

X, Y = "ratio π_old / π_rollout", "share of tokens (%)"
OLD, SAMPLER = "old_log_probs", "rollout_log_probs"
BINS = 40
#: The picture ends between these, in log-ratio; what is beyond is counted in the outermost bars.
NEAREST, FARTHEST = float(np.log(1.5)), float(np.log(4.0))
#: Marks of the axis where it reaches far, and where it does not.
COARSE, FINE = (0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
OPTIONS = {
    "clip_low": Option("number", "How far below 1 a ratio may be before it is clipped.", 0.2, most=1),
    "clip_high": Option("number", "How far above 1 a ratio may be before it is clipped.", 0.2, most=1000),
}
SIDES = (
    ("not clipped", INSIDE, "accent", ""),
    ("clipped below", LOW, "negative", "/"),
    ("clipped above", HIGH, "positive", "\\"),
)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Per unmasked token with both log-probabilities; `owner`: its rollout's place in storage order."""

    ratio: Floats
    side: NDArray[np.int8]
    owner: NDArray[np.int64]
    why: str | None = None

    def share(self, side: int) -> float:
        return float((self.side == side).mean()) if self.side.size else 0.0


def read_ratios(session: ReadSession, batch: Batch, options: Mapping[str, Any]) -> Ratios:
    """Without advantages no token is clipped: which side is, depends on their sign. Raises as `choose`."""
    lacking = [name for name in (OLD, SAMPLER) if batch.fields.get(name) in (None, "absent")]
    if lacking:
        return _none(f"no values recorded: {' and '.join(lacking)}, so there is no ratio.")
    read = {name: choosing.tokens(session, batch, name) for name in (OLD, SAMPLER)}
    old, sampler = read[OLD], read[SAMPLER]
    if old is None or sampler is None or not np.array_equal(old[1], sampler[1]):
        return _none(f"no ratio: {OLD} and {SAMPLER} are not of the same length in every response.")
    values, lengths, mask = old
    owner = np.repeat(np.arange(lengths.size), lengths)
    kept = mask & np.isfinite(values) & np.isfinite(sampler[0])
    if not kept.any():
        return _none("no unmasked token has both log-probabilities.")
    advantages = _advantages(session, batch, options, lengths)[kept]
    found = policy_ratio(
        torch.from_numpy(sampler[0][kept].astype(np.float64)),
        torch.from_numpy(values[kept].astype(np.float64)),
        torch.from_numpy(np.nan_to_num(advantages)),
        float(options["clip_low"]),
        float(options["clip_high"]),
    )
    return Ratios(found.ratio.numpy(), found.side.numpy(), owner[kept])


def _none(why: str) -> Ratios:
    return Ratios(np.zeros(0), np.zeros(0, np.int8), np.zeros(0, np.int64), why)


def _advantages(
    session: ReadSession, batch: Batch, options: Mapping[str, Any], lengths: NDArray[np.int64]
) -> Floats:
    """At every token; NaN where there is none, or where it is of another length."""
    chosen = choosing.choose(session, batch, options["estimate"], per_token=True)
    read = None if chosen.field is None else choosing.tokens(session, batch, chosen.field)
    if read is not None and np.array_equal(read[1], lengths):
        return read[0].astype(np.float64)
    columns = columns_of(session, batch)
    return np.repeat(choosing.per_rollout(session, batch, chosen, columns), lengths)


def draw(session: ReadSession, batch: Batch, options: dict[str, Any], title: str) -> Plot:
    """How often each ratio occurs, on a logarithmic axis, by what clipping does."""
    found = read_ratios(session, batch, options)
    if found.why is not None:
        return empty(title, found.why, x=X, y=Y)
    reach = float(np.clip(1.05 * np.abs(np.log(found.ratio)).max(), NEAREST, FARTHEST))
    low, high = 1 - float(options["clip_low"]), 1 + float(options["clip_high"])
    edges = [float(np.log(value)) for value in (low, high) if abs(np.log(max(value, 1e-9))) < reach]
    return figure(
        _histogram(found, reach),
        title,
        sentence(found, low, high),
        height=320,
        barmode="stack",
        bargap=0.05,
        showlegend=True,
        shapes=[_edge(place) for place in edges],
        xaxis=_ratio_axis(reach),
        yaxis=axis(Y, rangemode="tozero"),
        meta={
            "n": int(found.ratio.size),
            "clip_fraction": 1.0 - found.share(INSIDE),
            "clipped_below": found.share(LOW),
            "clipped_above": found.share(HIGH),
            "beyond": int((np.abs(np.log(found.ratio)) > reach).sum()),
        },
    )


def _histogram(found: Ratios, reach: float) -> list[Plot]:
    """Bars over the logarithm of the ratio; what is beyond the axis stands at its ends."""
    edges = np.linspace(-reach, reach, BINS + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    logs = np.clip(np.log(found.ratio), -reach, reach)
    return [
        _bars(name, middles, uniform_histogram(logs[found.side == side], edges), logs.size, role, pattern)
        for name, side, role, pattern in SIDES
        if (found.side == side).any()
    ]


def _ratio_axis(reach: float) -> Plot:
    """Equal steps of the logarithm are equally wide; the labels are the ratios."""
    ticks = [tick for tick in (FINE if reach < np.log(2.0) else COARSE) if abs(np.log(tick)) <= reach]
    labels = [f"{tick:g}" for tick in ticks]
    return axis(X, tickvals=np.log(ticks).tolist(), ticktext=labels, range=[-reach, reach])


def sentence(found: Ratios, low: float, high: float) -> str:
    outside = percent(float(((found.ratio < low) | (found.ratio > high)).mean()))
    mean, least, most = (number(float(of(found.ratio))) for of in (np.mean, np.min, np.max))
    return (
        f"π_old / π_rollout of {integer(found.ratio.size)} unmasked tokens, mean {mean}, from {least} to "
        f"{most}; {outside} outside [{number(low)}, {number(high)}], {percent(1.0 - found.share(INSIDE))} "
        f"clipped ({percent(found.share(LOW))} below, {percent(found.share(HIGH))} above): only on the side "
        "on which the advantage would push further."
    )


def _bars(name: str, x: Floats, counts: NDArray[np.int64], whole: int, role: str, pattern: str) -> Plot:
    return {
        "type": "bar",
        "name": name,
        "x": array(x),
        "y": array(100.0 * counts / whole),
        "customdata": [
            [f"{ratio:.3g}", count] for ratio, count in zip(np.exp(x), counts.tolist(), strict=True)
        ],
        "marker": {
            "color": LIGHT[role],
            "line": {"width": 0, "color": LIGHT[role]},
            "pattern": {
                "shape": pattern,
                "fillmode": "overlay",
                "size": 6,
                "solidity": 0.25,
                "fgcolor": LIGHT["paper"],
            },
        },
        "hovertemplate": f"ratio about %{{customdata[0]}}: %{{customdata[1]}} tokens<extra>{name}</extra>",
    }


def _edge(value: float) -> Plot:
    return {
        "type": "line",
        "x0": value,
        "x1": value,
        "y0": 0,
        "y1": 1,
        "yref": "y domain",
        "line": {"color": LIGHT["ink"], "width": 1, "dash": "dot"},
    }
