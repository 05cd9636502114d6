"""Reward components inside prompt groups: what each contributes to the spread that trains.

Only rollouts with a reward and every component count; rewards and components are centred on their group.
The total is taken as a weighted sum: the weights are those of least squares, and where they leave more than
2 % of the spread unexplained (a product, a gate, a component that is missing), nothing is said.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.findings.view import ROUNDING, Bools, Floats, Ints, View

#: Words in the name of a component that judges the answer itself.
OUTCOME = re.compile(
    r"correct|accura|exact|answer|outcome|success|solved|pass|verif|match|test|goal|win|score|task",
    re.IGNORECASE,
)
#: Words in the name of a component that shapes the way to it.
SHAPING = re.compile(
    r"format|length|len|bonus|penal|shap|brev|concis|overlong|tag|style|repet|language|kl|cost|time",
    re.IGNORECASE,
)
EXPLAINED = 0.98
ALIKE = 1e-6
LEAST = 4


@dataclass(frozen=True, slots=True)
class Components:
    """Of `R` rollouts with all `K` components, which are places in the view.

    values    `[R, K]` as recorded, and `centred` on their group
    total     `[R]` reward less its group's mean
    weights   `[K]` of the components in the reward
    shares    `[K]` of the within-group variance of the reward; they sum to 1
    main      the component that judges the answer: by its name, else the one with the largest share
    named     whether its name said so
    """

    names: list[str]
    places: Ints
    group: Ints
    values: Floats
    centred: Floats
    total: Floats
    weights: Floats
    shares: Floats
    main: int
    named: bool


def read(view: View) -> Components | None:
    """None where there are not two components, or the reward is not their weighted sum."""
    raw = view.columns.components
    if len(raw) < 2 or not view.grouped:
        return None
    names = list(raw)
    table = np.stack([raw[name] for name in names], axis=1)
    rows = view.scored & np.isfinite(table).all(axis=1) & (view.valid != 0)
    if rows.sum() < LEAST:
        return None
    places = np.flatnonzero(rows)
    group, values = view.group[places], table[places]
    centred = centre(values, group, view.groups)
    total = centre(view.reward[places, None], group, view.groups)[:, 0]
    weights = weigh(centred, total)
    if weights is None:
        return None
    variance = float(total @ total)
    shares = weights * (centred.T @ total) / variance if variance > 0 else np.zeros(len(names))
    main, named = main_of(names, weights * centred.std(axis=0))
    return Components(names, places, group, values, centred, total, weights, shares, main, named)


def centre(values: Floats, group: Ints, groups: int) -> Floats:
    """Each column of `[R, K]` less its group's mean; what only rounding leaves is 0."""
    count = np.maximum(np.bincount(group, minlength=groups), 1)
    mean = np.stack([np.bincount(group, column, minlength=groups) / count for column in values.T], axis=1)
    found: Floats = values - mean[group]
    found[np.abs(found) <= ROUNDING * np.abs(values).max(initial=0.0)] = 0.0
    return found


def weigh(centred: Floats, total: Floats) -> Floats | None:
    """`[K]` the weights with which the components make the reward; None where they do not, or overflow."""
    if not (np.isfinite(centred).all() and np.isfinite(total).all()):
        return None
    found, _, _, singular = np.linalg.lstsq(centred, total, rcond=None)
    left = total - centred @ found
    size = float(total @ total)
    if size == 0:  # nothing to explain: the plain sum, where the components cancel
        return np.ones(centred.shape[1]) if not centred.sum(axis=1).any() else None
    moving = np.linalg.norm(centred, axis=0) > 0
    if singular[moving.sum() - 1] < ALIKE * singular[0]:  # one is the other times a number: any weights do
        plain = total - centred.sum(axis=1)
        return np.ones(centred.shape[1]) if float(plain @ plain) <= (1 - EXPLAINED) * size else None
    weights: Floats = np.asarray(found, dtype=np.float64)
    return weights if float(left @ left) <= (1 - EXPLAINED) * size else None


def main_of(names: list[str], contribution: Floats) -> tuple[int, bool]:
    """The component that judges the answer, and whether its name says so."""
    outcomes = [k for k, name in enumerate(names) if OUTCOME.search(name) and not SHAPING.search(name)]
    others = [k for k, name in enumerate(names) if not SHAPING.search(name)]
    if not outcomes and len(others) == 1 and len(names) > 1:
        outcomes = others
    among = outcomes or list(range(len(names)))
    return max(among, key=lambda k: float(np.abs(contribution[k]))), bool(outcomes)


def varies(centred: Floats, group: Ints, groups: int) -> Bools:
    """`[G, K]` the component differs inside the group."""
    moved = [np.bincount(group[column != 0], minlength=groups) > 0 for column in centred.T]
    return np.stack(moved, axis=1)


def deviation(total: Floats, group: Ints, groups: int) -> Floats:
    """`[G]` std with ddof 1 of centred values by group; NaN for fewer than two."""
    count = np.bincount(group, minlength=groups)
    squares = np.bincount(group, total**2, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
    return found


def z_scores(total: Floats, group: Ints, groups: int) -> NDArray[np.float64]:
    """`[R]` centred values over their group's std (ddof 1); 0 in a group without spread."""
    std = deviation(total, group, groups)[group]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(std > 0, total / std, 0.0)


def apart(values: Floats, group: Ints, groups: int) -> Floats:
    """`[R, K]` z-scores (ddof 1) of each component `[R, K]` within its group, as GDPO adds them up."""
    centred = centre(values, group, groups)
    return np.stack([z_scores(column, group, groups) for column in centred.T], axis=1)
