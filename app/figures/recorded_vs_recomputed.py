"""Recorded advantages against an estimate: on the diagonal they are the same; what leaves it stands out.

A dot is an unmasked token where advantages are recorded per token, else a rollout. Two numbers are taken as
the same where they differ by at most 1e-4, or 1e-4 of the recorded one: files round.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.chosen import RECORDED, Chosen, Floats
from app.figures.figure import ESTIMATE, GROUP, Figure, Plot
from app.figures.kept import columns_of
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, escape, figure, outside, symmetric
from app.figures.sampling import first_of
from app.figures.subject import group_members
from app.figures.wording import stated
from app.formatting import integer, number, percent
from storage.database import ReadSession
from storage.models import Batch
from storage.rollouts import Columns

TITLE = "Recorded against recomputed"
X, Y = "recorded advantage", "recomputed advantage"
MOST = 2000
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Pairs:
    """Numbers that both have, end to end.

    owner  position of the rollout of each, in storage order
    token  place in its response, or None where a pair is a rollout
    """

    recorded: Floats
    recomputed: Floats
    owner: NDArray[np.int64]
    token: NDArray[np.int64] | None

    @property
    def unit(self) -> str:
        return "rollout" if self.token is None else "token"

    @property
    def off(self) -> Floats:
        """How far apart, in size."""
        return np.abs(self.recomputed - self.recorded)

    @property
    def deviates(self) -> NDArray[np.bool_]:
        return np.asarray(self.off > TOLERANCE * np.maximum(1.0, np.abs(self.recorded)))


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    recorded = choosing.choose(session, batch, RECORDED)
    if recorded.why is not None:
        return empty(TITLE, recorded.why, x=X, y=Y)
    chosen = choosing.choose(session, batch, options["estimate"], per_token=recorded.field is not None)
    if chosen.estimate is None:
        why = "no estimate to hold the recorded advantages against; request one, or reconcile them."
        return empty(TITLE, why, x=X, y=Y)
    columns = columns_of(session, batch)
    members = group_members(session, batch, columns, options)
    pairs = read_pairs(session, batch, recorded, chosen, columns, members)
    if not pairs.recorded.size:
        why = f"no rollout has both a recorded advantage and one of {escape(chosen.label)}."
        return empty(TITLE, why, x=X, y=Y)
    return _figure(batch, columns, chosen, pairs)


def read_pairs(
    session: ReadSession,
    batch: Batch,
    recorded: Chosen,
    chosen: Chosen,
    columns: Columns,
    members: NDArray[np.int64],
) -> Pairs:
    """Per unmasked token where that is recorded per token, else per rollout; finite on both sides."""
    mine = np.zeros(columns.rollouts, dtype=bool)
    mine[members] = True
    if recorded.field is None:
        one = choosing.per_rollout(session, batch, recorded, columns)
        other = choosing.per_rollout(session, batch, chosen, columns)
        both = np.flatnonzero(mine & np.isfinite(one) & np.isfinite(other))
        return Pairs(one[both], other[both], both, None)
    read = choosing.tokens(session, batch, recorded.field)
    if read is None:
        return Pairs(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    values, lengths, mask = read
    owner = np.repeat(np.arange(columns.rollouts), lengths)
    other = _spread(session, batch, chosen, columns, lengths)
    token = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    kept = mask & mine[owner] & np.isfinite(values) & np.isfinite(other)
    return Pairs(values[kept].astype(np.float64), other[kept], owner[kept], token[kept])


def _spread(
    session: ReadSession, batch: Batch, chosen: Chosen, columns: Columns, lengths: NDArray[np.int64]
) -> Floats:
    """The estimate's number at every recorded token; NaN for rollouts of which it has another length."""
    read = None if chosen.field is None else choosing.tokens(session, batch, chosen.field)
    if read is None:
        return np.repeat(choosing.per_rollout(session, batch, chosen, columns), lengths)
    values, own = read[0].astype(np.float64), read[1]
    if np.array_equal(own, lengths):
        return values
    starts = np.cumsum(own) - own
    parts = [
        values[starts[i] : starts[i] + own[i]] if own[i] == lengths[i] else np.full(lengths[i], np.nan)
        for i in range(lengths.size)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _figure(batch: Batch, columns: Columns, chosen: Chosen, pairs: Pairs) -> Plot:
    off, deviates = pairs.off, pairs.deviates
    order = np.argsort(pairs.recorded, kind="stable")
    ranked = deviates[order]
    # Along the recorded values, so that the ends of the diagonal are always drawn.
    kept = order[first_of(np.flatnonzero(ranked), np.flatnonzero(~ranked), MOST)]
    looks = (("the same", ~deviates, "accent", "circle-open"), ("deviates", deviates, "flip", "diamond"))
    both = np.concatenate([pairs.recorded, pairs.recomputed])
    reach = symmetric(both)
    traces = [_diagonal(reach)] + [
        _dots(batch, columns, pairs, own, name, role, symbol)
        for name, which, role, symbol in looks
        if (own := kept[which[kept]]).size
    ]
    return figure(
        traces,
        TITLE,
        _sentence(chosen, pairs, kept.size, outside(both)),
        height=420,
        showlegend=True,
        xaxis=axis(X, range=reach),
        yaxis=axis(Y, range=reach),
        meta={
            "n": int(off.size),
            "unit": pairs.unit,
            "shown": int(kept.size),
            "deviating": int(deviates.sum()),
            "rollouts": int(np.unique(pairs.owner[deviates]).size),
            "max_abs_error": float(off.max()),
            "p99_abs_error": float(np.quantile(off, 0.99)),
            "within_1e-6": float((off <= 1e-6).mean()),
        },
    )


def _diagonal(reach: list[float]) -> Plot:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "x": reach,
        "y": reach,
        "line": {"color": LIGHT["zero"], "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _dots(
    batch: Batch,
    columns: Columns,
    pairs: Pairs,
    own: NDArray[np.int64],
    name: str,
    role: str,
    symbol: str,
) -> Plot:
    index = columns.index[pairs.owner[own]].tolist()
    places = [""] * own.size if pairs.token is None else [f", token {i}" for i in pairs.token[own].tolist()]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": array(pairs.recorded[own]),
        "y": array(pairs.recomputed[own]),
        "customdata": [
            [i, f"/batches/{batch.id}/rollouts/{i}", place] for i, place in zip(index, places, strict=True)
        ],
        "marker": {"color": LIGHT[role], "size": 6, "symbol": symbol, "opacity": 0.75},
        "hovertemplate": "rollout #%{customdata[0]}%{customdata[2]}<br>recorded %{x:.6g}<br>"
        f"recomputed %{{y:.6g}}<extra>{name}</extra>",
    }


def _sentence(chosen: Chosen, pairs: Pairs, shown: int, left: str) -> str:
    off, deviates = pairs.off, pairs.deviates
    n, changed = int(off.size), int(deviates.sum())
    unit = pairs.unit if n == 1 else f"{pairs.unit}s"
    text = f"{escape(stated(chosen))} against what is recorded: {integer(changed)} of {integer(n)} {unit} "
    text += f"({percent(changed, n)}) deviate{'s' if changed == 1 else ''} by more than {number(TOLERANCE)}"
    if changed and pairs.token is not None:
        text += f", in {integer(int(np.unique(pairs.owner[deviates]).size))} rollouts"
    text += f"; largest difference {number(float(off.max()))}, p99 {number(float(np.quantile(off, 0.99)))}"
    text += left
    return text + (f"; {integer(shown)} drawn." if shown < n else ".")


FIGURE = Figure(
    "recorded_vs_recomputed",
    TITLE,
    "The recorded advantages against an estimate, per token where recorded per token; deviations stand out.",
    ("recorded advantages", "an estimate"),
    draw,
    options={"estimate": ESTIMATE, "group": GROUP},
)
