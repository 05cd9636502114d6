"""One rollout, every track that it has, one y axis each above a shared token axis.

Long responses are thinned on the server to at most 2,000 points a track: first, least, greatest and last
value of each run of tokens (M4), so no spike is lost.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import BadRequest, NotFound
from app.figures import chosen as choosing
from app.figures.figure import ESTIMATE, Figure, Option, Plot
from app.figures.palette import LIGHT
from app.figures.plotly import array, axis, empty, figure
from app.figures.tracks import TRACKS, Track, read_tracks
from app.figures.wording import stated
from app.formatting import integer, number, plural
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch, Rollout

TITLE = "Tracks of one rollout"
X, Y = "token of the response", "value"
POINTS = 2000
ROW, GAP = 76, 0.18  # pixels of a track, and the share of it that stays empty
ROUNDING = 1e-6  # float32 numbers that were subtracted differ by so little of their size without a meaning


def draw(session: ReadSession, batch: Batch, options: dict[str, Any]) -> Plot:
    rollout = rollouts.get(session, batch.id, options["rollout"])
    if rollout is None and not batch.rollouts:
        return empty(TITLE, "no values recorded: the batch has no rollout.", x=X, y=Y)
    if rollout is None:
        raise NotFound(
            f"The batch has no rollout {options['rollout']}; it has {batch.rollouts}, counted from 0."
        )
    chosen = choosing.choose(session, batch, options["estimate"], per_token=True)
    tracks, missing = read_tracks(session, rollout, chosen)
    length = max((track.values.size for track in tracks), default=0)
    if not length:
        return empty(TITLE, "no values recorded: nothing per token for this rollout.", x=X, y=Y)
    first, last = _window(options, length)
    return _figure(rollout, tracks, missing, chosen, first, last)


def _window(options: dict[str, Any], length: int) -> tuple[int, int]:
    first = int(options["start"])
    last = length if options["end"] is None else min(int(options["end"]), length)
    if not first < last:
        raise BadRequest(
            f"Tokens {first} to {options['end']} are none: the response has {length}, counted from 0."
        )
    return first, last


def m4(values: NDArray[np.float64], points: int) -> NDArray[np.int64]:
    """Positions to draw, at most `points`: first, least, greatest and last of each of points/4 equal runs.

    NaN is neither least nor greatest; a run of NaN keeps its first and last.
    """
    size = values.size
    if size <= points:
        return np.arange(size)
    edges = np.linspace(0, size, max(points // 4, 1) + 1).astype(np.int64)
    kept: list[int] = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[first:last]
        kept += [first, last - 1]
        if np.isfinite(part).any():
            kept += [first + int(np.nanargmin(part)), first + int(np.nanargmax(part))]
    return np.unique(np.array(kept, dtype=np.int64))


def level(values: NDArray[np.float64]) -> dict[str, Any]:
    """An axis on which values that differ by rounding alone are a level line; nothing for all others."""
    there = values[np.isfinite(values)]
    low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)
    size = max(abs(low), abs(high))
    return {"range": [low - size / 2, high + size / 2]} if 0 < high - low <= ROUNDING * size else {}


def _figure(
    rollout: Rollout, tracks: list[Track], missing: list[str], chosen: choosing.Chosen, first: int, last: int
) -> Plot:
    traces: list[Plot] = []
    layout: dict[str, Any] = {}
    for row, track in enumerate(tracks):
        name = "" if row == 0 else str(row + 1)
        top = 1 - row / len(tracks)
        layout[f"yaxis{name}"] = axis(
            track.axis,
            domain=[max(0.0, top - (1 - GAP) / len(tracks)), top],
            zeroline=track.centred,
            nticks=3,
            **({"range": [-0.1, 1.1]} if track.name == "mask" else level(track.values[first:last])),
        )
        traces.append(_trace(track, f"y{name}", first, last))
    layout["xaxis"] = axis(
        X, anchor=f"y{len(tracks) if len(tracks) > 1 else ''}", range=[first - 0.5, last - 0.5]
    )
    return figure(
        traces,
        TITLE,
        _sentence(rollout, tracks, missing, chosen, first, last),
        height=90 + ROW * len(tracks),
        hovermode="x",
        meta={"index": rollout.index, "tracks": [track.name for track in tracks], "missing": missing}
        | {"wide": True, "start": first, "end": last, "thinned": last - first > POINTS},
        **layout,
    )


def _trace(track: Track, y_axis: str, first: int, last: int) -> Plot:
    part = track.values[first:last]
    kept = m4(part, POINTS)
    shape: Plot = {"mode": "lines", "type": "scatter", "line": {"color": LIGHT[track.role], "width": 1}}
    if track.shape == "stems":
        # Bars of no reward are not drawn: what counts is where reward stands.
        kept = kept[~(part[kept] == 0)] if (part != 0).any() else kept[:1]
        shape = {
            "type": "bar",
            "width": max(1.0, (last - first) / 400),
            "marker": {"color": LIGHT[track.role]},
        }
    elif track.shape == "steps":
        shape["line"] |= {"shape": "hvh"}
        shape |= {"fill": "tozeroy", "fillcolor": LIGHT["band-outer"]}
    elif part.size == 1:
        shape |= {"mode": "markers", "marker": {"color": LIGHT[track.role], "size": 6}}
    return {
        "name": track.name,
        "x": array(kept + first),
        "y": array(part[kept]),
        "yaxis": y_axis,
        "hovertemplate": f"token %{{x}}: {track.name} %{{y:.4g}}<extra></extra>",
    } | shape


def _sentence(
    rollout: Rollout, tracks: list[Track], missing: list[str], chosen: choosing.Chosen, first: int, last: int
) -> str:
    text = f"Rollout #{rollout.index}, reward {number(rollout.reward)}, "
    whole = max(track.values.size for track in tracks)
    shown = last - first
    text += plural(shown, "token") if shown == whole else f"tokens {first} to {last - 1} of {integer(whole)}"
    if chosen.why is None:
        text += f"; {stated(chosen)}"
    notes = [track.note for track in tracks if track.note]
    text += f"; {'; '.join(notes)}" if notes else ""
    text += f"; thinned to at most {integer(POINTS)} points a track, spikes kept" if shown > POINTS else ""
    return text + (f". Not in the batch: {', '.join(missing)}." if missing else ".")


FIGURE = Figure(
    "token_tracks",
    TITLE,
    f"One rollout along its tokens: {', '.join(TRACKS)}.",
    ("any per-token field",),
    draw,
    options={
        "rollout": Option("integer", "Index of the rollout.", 0),
        "estimate": ESTIMATE,
        "start": Option("integer", "First token to show, from 0.", 0),
        "end": Option("integer", "Token to stop before.", None, least=1),
    },
)
