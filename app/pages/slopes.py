"""Beside a group: what each whitening scope makes of the step's rollouts, and where this group's stand in it.

A batch and a finished estimate never change, so what was computed for the whole step is kept; a group adds
its own lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.figures import sign_flips
from app.figures.agreement import signs
from app.figures.chosen import Chosen, Floats
from app.figures.sampling import first_of
from app.figures.scopes import LABELS, Base, read_base, settings, under, why_not
from app.formatting import integer, percent, plural, signed
from app.pages.scope_tables import MatrixCell, matrix_of_counts
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch

WIDTH, HEIGHT, MARGIN = 320, 132, 5
#: Scopes that every step has, in the order in which whitening goes wider.
SCOPES = ("none", "group", "batch")
#: Lines drawn of the whole step, the sign-changing ones first; and of the group itself.
MOST, MOST_OWN = 240, 64

_KEPT: Kept[tuple[str, object], "Step"] = Kept(16)


@dataclass(frozen=True, slots=True)
class Stop:
    """One place on the way: its name, its x, and the value that the full height stands for."""

    label: str
    x: float
    limit: float


@dataclass(frozen=True, slots=True)
class Own:
    """The line of one rollout of the group; `told` are its values in words."""

    index: int
    path: str
    flips: bool
    told: str


@dataclass(frozen=True, slots=True)
class Step:
    """The whole step. `places [k, B]`: the y of each rollout at each stop, NaN where it takes no part;
    `values` what they stand for; `index [B]` and `flipped [B]` in storage order.

    keeps, flips   path data of the lines drawn of it
    why            there is nothing to draw, and why
    """

    stops: tuple[Stop, ...]
    values: Floats
    places: Floats
    index: NDArray[np.int64]
    flipped: NDArray[np.bool_]
    keeps: str
    flips: str
    matrix: tuple[tuple[MatrixCell, ...], ...]
    before: str
    after: str
    sentence: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Slopes:
    """What the page draws: the step, the group's own lines, and how many of those change sign."""

    step: Step
    own: tuple[Own, ...]
    changed: int
    of: int


def slopes(session: ReadSession, batch: Batch, chosen: Chosen, members: Sequence[int]) -> Slopes:
    """`members`: indices of the group's rollouts."""
    made = chosen.estimate
    which = chosen.label if made is None else (made.id, made.finished)
    step = _KEPT.get((batch.id, which), lambda: step_of(session, batch, chosen))
    if step.why is not None:
        return Slopes(step, (), 0, 0)
    places = np.flatnonzero(np.isin(step.index, np.asarray(members)))
    places = places[np.isfinite(step.places[:, places]).all(axis=0)]
    places = places[np.argsort(step.index[places])]
    own = tuple(own_line(step, int(place)) for place in places[:MOST_OWN])
    return Slopes(step, own, int(step.flipped[places].sum()), int(places.size))


def step_of(session: ReadSession, batch: Batch, chosen: Chosen) -> Step:
    if chosen.estimate is None and chosen.field is not None and not batch.fields.get("reward"):
        return nothing("no values recorded: reward; the page of whitening reads all tokens instead.")
    asked = None if chosen.estimate is None else chosen.estimate.id
    options = {"estimate": asked, "source": None, "unit": None, "from": None, "to": "batch"}
    base = read_base(session, batch, options, earlier=False)
    if base.why is not None:
        return nothing(base.why)
    found = {scope: under(base, scope) for scope in SCOPES}
    there = {scope: values for scope, values in found.items() if values is not None}
    first, second = sign_flips.pair(base, options)
    if first not in there or second not in there:
        absent = first if first not in there else second
        return nothing(f"No {LABELS[absent]} scope: {why_not(base, absent)}.")
    flipped = sign_flips.turned(base, there[first], there[second])
    cells = sign_flips.matrix(signs(there[first]), signs(there[second]), base.live)
    counts = [[int(cell.size) for cell in row] for row in cells]
    there["none"] = centred(base, there["none"])
    return drawn(base, there, flipped, counts, first, second)


def nothing(why: str) -> Step:
    none = np.zeros((0, 0))
    return Step((), none, none, np.zeros(0, np.int64), np.zeros(0, bool), "", "", (), "", "", "", why)


def centred(base: Base, raw: Floats) -> Floats:
    """Raw values around the mean of their group (of the batch, without groups): a reward has no zero line."""
    if base.name != "reward":
        return raw
    group = np.zeros(raw.size, dtype=np.int64) if base.group is None else base.group
    live = base.live
    sums = np.bincount(group[live], raw[live], minlength=int(group.max(initial=0)) + 1)
    counts = np.bincount(group[live], minlength=sums.size)
    means: Floats = sums / np.maximum(counts, 1)
    return raw - means[group]


def drawn(
    base: Base,
    there: dict[str, Floats],
    flipped: NDArray[np.bool_],
    counts: list[list[int]],
    first: str,
    second: str,
) -> Step:
    values = np.stack(list(there.values()))
    limits = limits_of(base, list(there), values)
    x = np.linspace(MARGIN, WIDTH - MARGIN, len(there))
    middle = HEIGHT / 2
    places = middle - np.clip(values / limits[:, None], -1.0, 1.0) * (middle - MARGIN)
    kept = first_of(np.flatnonzero(base.live & flipped), np.flatnonzero(base.live & ~flipped), MOST)
    return Step(
        stops=tuple(
            Stop(label, float(at), float(limit))
            for label, at, limit in zip(labels_of(base, list(there)), x, limits, strict=True)
        ),
        values=values,
        places=places,
        index=base.columns.index,
        flipped=flipped,
        keeps=lines(x, places[:, kept[~flipped[kept]]]),
        flips=lines(x, places[:, kept[flipped[kept]]]),
        matrix=matrix_of_counts(counts),
        before=LABELS[first],
        after=LABELS[second],
        sentence=sentence(base, int(flipped.sum()), int(kept.size), first, second),
    )


def limits_of(base: Base, scopes: list[str], values: Floats) -> Floats:
    """What the full height stands for at each stop: raw values have a unit of their own, whitened ones are in
    std and share one."""
    most = np.array([np.abs(row[base.live]).max(initial=0.0) for row in values])
    raw = np.array([scope == "none" for scope in scopes])
    shared: Floats = np.where(raw, most, most[~raw].max(initial=0.0))
    return np.where(shared > 0, shared, 1.0)


def labels_of(base: Base, scopes: list[str]) -> list[str]:
    raw = "raw" if base.name != "reward" else "raw − mean"
    told = {"none": raw, "group": "÷ group σ", "batch": "batch"}
    return [told[scope] if base.name == "reward" else LABELS[scope] for scope in scopes]


def lines(x: Floats, places: Floats) -> str:
    """Path data: one line per column of `places [k, n]`; equal lines are drawn once."""
    rounded = np.unique(np.round(places, 1), axis=1)
    return "".join(line(x, row) for row in rounded.T if np.isfinite(row).all())


def line(x: Floats, y: Floats) -> str:
    points = [f"{a:.4g} {b:.4g}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return f"M{'L'.join(points)}"


def own_line(step: Step, place: int) -> Own:
    x = np.array([stop.x for stop in step.stops])
    told = ", ".join(
        f"{stop.label} {signed(float(value))}"
        for stop, value in zip(step.stops, step.values[:, place], strict=True)
    )
    return Own(int(step.index[place]), line(x, step.places[:, place]), bool(step.flipped[place]), told)


def sentence(base: Base, changed: int, shown: int, first: str, second: str) -> str:
    n = int(base.live.sum())
    verb = "changes" if changed == 1 else "change"
    text = f"{integer(changed)} of {plural(n, 'rollout')} of the step ({percent(changed, n)}) {verb} sign "
    text += f"from {LABELS[first]} to {LABELS[second]}; {base.name}s whitened {settings(base)}"
    return text + (f"; {integer(shown)} are drawn." if shown < n else ".")
