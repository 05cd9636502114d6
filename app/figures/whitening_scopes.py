"""Raw → scope → scope: one line per rollout. Those that change sign between two of the scopes are drawn last,
in the hue that stands for this alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.agreement import signs
from app.figures.chosen import Floats
from app.figures.figure import Figure, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, figure, outside, rule, symmetric
from app.figures.sampling import first_of
from app.figures.scopes import LABELS, OPTIONS, SCOPES, Base, how, read_base, under, why_not
from app.figures.sign_flips import FROM, TO, pair, turned
from app.formatting import integer, percent, plural
from storage.database import ReadSession
from storage.models import Batch

TITLE = "What whitening does to each rollout"
X, Y = "whitening scope", "advantage"
MOST = 400


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    base = read_base(session, batch, options)
    if base.why is not None:
        return empty(TITLE, base.why, x=X, y=Y)
    values = {scope: under(base, scope) for scope in SCOPES}
    shown = {scope: value for scope, value in values.items() if value is not None}
    first, second = pair(base, options)
    flipped = np.zeros(base.columns.rollouts, dtype=bool)
    if first in shown and second in shown:
        flipped = turned(base, shown[first], shown[second])
    # Every sign-changing rollout up to a cap; the others are a picture of the rest.
    kept = first_of(np.flatnonzero(base.live & flipped), np.flatnonzero(base.live & ~flipped), MOST)
    return _figure(batch, base, shown, flipped, kept, first, second)


def _figure(
    batch: Batch,
    base: Base,
    shown: dict[str, Floats],
    flipped: NDArray[np.bool_],
    kept: NDArray[np.int64],
    first: str,
    second: str,
) -> Plot:
    grid = np.stack([value[kept] for value in shown.values()], axis=1)
    traces = _traces(
        batch, grid, base.columns.index[kept], flipped[kept], f"{LABELS[first]} to {LABELS[second]}"
    )
    labels = [f"{LABELS[scope]}<br>{_unit(base, scope)}" for scope in shown]
    absent = {scope: why_not(base, scope) for scope in SCOPES if scope not in shown}
    return figure(
        traces,
        TITLE,
        _sentence(base, flipped, kept, first, second, absent, outside(grid)),
        height=380,
        showlegend=True,
        shapes=[rule(0.0)],
        xaxis=axis(X, tickvals=list(range(len(labels))), ticktext=labels, range=[-0.25, len(labels) - 0.75]),
        yaxis=axis(f"{base.name} (raw in its own units, whitened in std)", range=symmetric(grid.ravel())),
        meta={
            "n": int(base.live.sum()),
            "shown": int(kept.size),
            "flipped": int(flipped.sum()),
            "from": first,
            "to": second,
            "absent": absent,
            "scopes": [_summary(scope, value, base.live) for scope, value in shown.items()],
        },
    )


def _traces(
    batch: Batch, grid: Floats, index: NDArray[np.int64], changed: NDArray[np.bool_], way: str
) -> list[Plot]:
    traces = []
    if (~changed).any():
        look = {"line": {"color": LIGHT["muted"], "width": 1}, "opacity": 0.35}
        traces.append(_lines("keeps its sign", grid[~changed], index[~changed], None, look))
    if changed.any():
        # Drawn last, so that no other line lies on top.
        look = {"line": {"color": LIGHT["flip"], "width": 1.6}, "opacity": 0.85}
        link = f"/batches/{batch.id}/rollouts/"
        traces.append(_lines(f"changes sign from {way}", grid[changed], index[changed], link, look))
    return traces


def _unit(base: Base, scope: str) -> str:
    if scope == "none":
        return base.name
    return f"{len(base.history)} earlier steps" if scope == "running" else f"by {base.setting.unit}"


def _lines(name: str, grid: Floats, index: NDArray[np.int64], link: str | None, look: dict[str, Any]) -> Plot:
    """All lines as one trace, a gap behind each."""
    lines, scopes = grid.shape
    y = np.concatenate([grid, np.full((lines, 1), np.nan)], axis=1).ravel()
    x = np.tile(np.append(np.arange(scopes, dtype=np.float64), np.nan), lines)
    owner = np.repeat(index, scopes + 1)
    custom = array(owner) if link is None else [[i, f"{link}{i}"] for i in owner.tolist()]
    which = "%{customdata}" if link is None else "%{customdata[0]}"
    return {
        "type": "scatter",
        "mode": "lines" if scopes > 1 else "markers",
        "name": name,
        "x": array(x),
        "y": array(y),
        "customdata": custom,
        "connectgaps": False,
        "hovertemplate": f"rollout #{which}<br>%{{y:.4g}}<extra>{name}</extra>",
    } | look


def _summary(scope: str, values: Floats, live: NDArray[np.bool_]) -> dict[str, Any]:
    kept, sign = values[live], signs(values)[live]
    return {
        "scope": scope,
        "n": int(kept.size),
        "mean": float(kept.mean()),
        "std": float(kept.std(ddof=1)) if kept.size > 1 else None,
        "negative": int((sign < 0).sum()),
        "zero": int((sign == 0).sum()),
        "positive": int((sign > 0).sum()),
    }


def _sentence(
    base: Base,
    flipped: NDArray[np.bool_],
    kept: NDArray[np.int64],
    first: str,
    second: str,
    absent: dict[str, str],
    left: str,
) -> str:
    n, changed = int(base.live.sum()), int(flipped.sum())
    text = f"{integer(changed)} of {plural(n, 'rollout')} ({percent(changed, n)}) "
    text += f"{'changes' if changed == 1 else 'change'} sign from {LABELS[first]} to {LABELS[second]}; "
    text += how(base)
    if kept.size < n:
        text += (
            f"; {integer(int(kept.size))} drawn, {integer(int(flipped[kept].sum()))} of them sign-changing"
        )
    text += left
    missing = "; ".join(f"{LABELS[scope]}: {why}" for scope, why in absent.items())
    return text + (f". Not drawn: {missing}." if missing else ".")


FIGURE = Figure(
    "whitening_scopes",
    TITLE,
    "Every rollout raw and under each whitening scope, one line each; sign-changing ones stand out.",
    ("reward, or an estimate",),
    draw,
    options=OPTIONS | {"from": FROM, "to": TO},
)
