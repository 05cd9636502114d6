"""What makes the rewards of tokens sum up to another number than the reward, where something known does."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from app.findings.token_sums import PRECISION, TINY, Sums
from app.findings.view import Bools, Floats, Ints, View

#: Names in a header whose numbers scale, shift or bound a reward: both are in them.
OF_REWARD = re.compile(r"rew|score|penal|bonus", re.IGNORECASE)
KNOBS = re.compile(r"scal|factor|coef|bias|shift|clip|bonus|penal|offset", re.IGNORECASE)
DISCOUNT = re.compile(r"discount|gamma", re.IGNORECASE)
MOST_COMPONENTS = 8


@dataclass(frozen=True, slots=True)
class Reading:
    """`words`: what fits, a whole sentence. `meant`: it is a usual thing to do, so no more than a note."""

    name: str
    words: str
    meant: bool
    numbers: dict[str, Any]


def close(one: Floats, other: Floats) -> bool:
    """The same numbers but for the precision of a file."""
    size = np.maximum(np.abs(one), np.abs(other))
    return bool((np.abs(one - other) <= PRECISION * size + TINY).all())


def harmless(view: View, sums: Sums) -> bool:
    """Whether the difference is what the file itself explains, or may be a penalty on every token."""
    off = np.flatnonzero(sums.off)
    return bool(
        sums.dense[off].all()
        or _of_pieces(view, sums)
        or _penalised(sums, off)
        or _configured(view.header, sums)
    )


def reading(view: View, sums: Sums) -> Reading | None:
    """The first that fits all rollouts."""
    return next(_readings(view, sums), None)


def _readings(view: View, sums: Sums) -> Iterator[Reading]:
    at, off = np.flatnonzero(sums.compared), np.flatnonzero(sums.off)
    reward, total = sums.reward[at], sums.sums[at]
    if sums.each[off].all():
        yield Reading("on_every_token", "Every trainable token has the whole reward.", False, {})
    if left := _left_out(view, sums, at):
        words = f"The sums are the rewards without {' and '.join(repr(name) for name in left)}."
        yield Reading("component_left_out", words, False, {"left_out": left})
    if (name := _picked(sums, off)) is not None:
        yield Reading(name, f"The reward is the {name} of the token rewards, not their sum.", True, {})
    if (factor := _factor(reward, total)) is not None:
        yield Reading("scaled", f"The sums are {factor:.6g} times the rewards.", True, {"factor": factor})
    if (view.truncated[off] == 1).all() and (view.truncated[at[~sums.off[at]]] != 1).any():
        words = "Only rollouts that were cut off differ, as with a penalty or a reward of 0 for these."
        yield Reading("cut_off", words, True, {})
    if _longest(view, sums, at):
        words = (
            "Only the longest rollouts differ, and have less on their tokens, as with a penalty on length."
        )
        yield Reading("longest", words, True, {})
    if (bounds := _clipped(reward, total)) is not None:
        words = "The sums are the rewards clipped to the range of the sums."
        yield Reading("clipped", words, True, {"low": bounds[0], "high": bounds[1]})
    if _normalised(reward, total, view.group[at]):
        words = "The sums are the rewards normalised over the batch or the group."
        yield Reading("normalised", words, True, {})
    if (line := _line(reward, total)) is not None:
        yield _along(*line)


def _along(slope: float, offset: float) -> Reading:
    if abs(slope - 1.0) <= PRECISION:
        words = f"The sums are the rewards {'plus' if offset > 0 else 'minus'} {abs(offset):.6g}."
        return Reading("shifted", words, False, {"offset": offset})
    words = (
        f"The sums are {slope:.6g} times the rewards, {'plus' if offset > 0 else 'minus'} {abs(offset):.6g}."
    )
    return Reading("scaled and shifted", words, True, {"factor": slope, "offset": offset})


def _of_pieces(view: View, sums: Sums) -> bool:
    """Rows that are pieces of one rollout: their sums together are its reward."""
    owner = view.columns.rollout_id
    if owner.size != view.rollouts or all(each is None for each in owner.tolist()):
        return False
    own = [f"row {i}" if each is None else f"id {each}" for i, each in enumerate(owner.tolist())]
    _, number = np.unique(np.array(own), return_inverse=True)
    together: Floats = np.bincount(number, sums.sums * sums.compared)[number].astype(np.float64)
    return bool(close(together[sums.off], sums.reward[sums.off]))


def _penalised(sums: Sums, off: Ints) -> bool:
    """The difference is one multiple of the KL of the file's log-probs."""
    if sums.field != "token_level_rewards":
        return False
    gap = (sums.reward - sums.sums)[off]
    for kl in sums.kl.values():
        own = kl[off]
        square = float(own @ own) if np.isfinite(own).all() else 0.0
        coefficient = float(gap @ own) / square if square > 0 else 0.0
        room = PRECISION * np.abs(gap) + TINY + 1e-3 * np.abs(gap).max()
        if coefficient > 0 and bool((np.abs(gap - coefficient * own) <= room).all()):
            return True
    return False


def _configured(header: Mapping[str, Any], sums: Sums) -> bool:
    """The header has a number that scales, shifts or bounds rewards to these sums."""
    at = sums.compared
    reward, total = sums.reward[at], sums.sums[at]
    numbers = [
        value for name, value in _leaves(header) if value and KNOBS.search(name) and OF_REWARD.search(name)
    ]
    if any(_discounted(reward, total, value) for name, value in _leaves(header) if DISCOUNT.search(name)):
        return True
    scales = [1.0, *numbers, *(1.0 / each for each in numbers)]
    for scale in scales:
        if close(total, scale * reward):
            return True
        for each in numbers:
            made = (scale * (reward + each), scale * (reward - each), scale * reward + each)
            clips = (np.clip(scale * reward, -abs(each), abs(each)), np.clip(scale * reward, 0, abs(each)))
            if any(close(total, one) for one in (*made, *clips)):
                return True
    return False


def _discounted(reward: Floats, total: Floats, factor: float) -> bool:
    """The sums are the rewards times whole powers of the factor, as with a discount by turns."""
    if not 0 < factor < 1 or ((reward == 0) != (total == 0)).any():
        return False
    some = reward != 0
    ratio = total[some] / reward[some]
    if not ratio.size or (ratio <= 0).any():
        return False
    power = np.round(np.log(ratio) / np.log(factor))
    return bool((power >= 0).all()) and close(ratio, factor**power)


def _leaves(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Every number of a header by its name, those inside objects and lists too."""
    if isinstance(value, Mapping) and depth < 6:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}", depth + 1)
    elif isinstance(value, list) and depth < 6:
        for inner in value[:20]:
            yield from _leaves(inner, name, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
        yield name, float(value)


def _factor(reward: Floats, total: Floats) -> float | None:
    size = float(reward @ reward)
    factor = float(reward @ total) / size if size > 0 else 0.0
    return factor if factor > 0 and close(total, factor * reward) else None


def _line(reward: Floats, total: Floats) -> tuple[float, float] | None:
    """Slope and offset of the sums over the rewards; of one reward's sums, the offset."""
    if np.ptp(reward) <= PRECISION * np.abs(reward).max(initial=0.0):
        slope = 1.0
    else:
        slope = float(np.cov(reward, total, ddof=0)[0, 1] / reward.var())
    offset = float((total - slope * reward).mean())
    fits = slope > 0 and close(total, slope * reward + offset) and abs(offset) > TINY
    return (slope, offset) if fits else None


def _normalised(reward: Floats, total: Floats, group: Ints) -> bool:
    """Sums that rise with the reward and are centred, over the batch or over every group."""
    if not total.any():
        return False
    for scope in (np.zeros_like(group), group):
        _, own = np.unique(scope, return_inverse=True)
        count = np.bincount(own)
        mean, middle = (np.bincount(own, each) / count for each in (total, reward))
        if np.abs(mean).max() > 1e-3 * max(float(np.abs(total).max()), TINY):
            continue
        away = reward - middle[own]
        square = np.bincount(own, away**2)
        slope = np.bincount(own, away * total) / np.where(square > 0, square, 1.0)
        if (slope[square > 0] > 0).all() and np.abs(total - slope[own] * away).max() <= 1e-3 * np.abs(
            total
        ).max():
            return True
    return False


def _longest(view: View, sums: Sums, at: Ints) -> bool:
    """Those that differ are longer than all that do not, and have less on their tokens than their reward."""
    off, length = sums.off[at], view.length[at]
    if off.all() or (length < 0).any():
        return False
    less = bool((sums.sums[at] < sums.reward[at])[off].all())
    return less and int(length[off].min()) > int(length[~off].max())


def _clipped(reward: Floats, total: Floats) -> tuple[float, float] | None:
    low, high = float(total.min()), float(total.max())
    inside = (reward > low) & (reward < high)
    fits = int(inside.sum()) >= 2 and close(total, np.clip(reward, low, high))
    return (low, high) if fits else None


def _picked(sums: Sums, off: Ints) -> str | None:
    """Which number of several on the tokens the reward is."""
    count, reward = sums.rewarded[off], sums.reward[off]
    if not (count >= 2).any():
        return None
    found = {
        "mean": sums.sums[off] / np.maximum(count, 1),
        "last": sums.last[off],
        "highest": sums.high[off],
        "lowest": sums.low[off],
    }
    return next((name for name, values in found.items() if close(values, reward)), None)


def _left_out(view: View, sums: Sums, at: Ints) -> list[str]:
    """The fewest components, of those that add up to the reward, without which they add up to the sums.

    With the header's `reward_weights`, by name or in the components' order, else plainly.
    """
    raw = view.columns.components
    if not 2 <= len(raw) <= MOST_COMPONENTS:
        return []
    table = np.stack([raw[name][at] for name in raw], axis=1) * _weights(view.header, list(raw))
    if not np.isfinite(table).all() or not close(table.sum(axis=1), sums.reward[at]):
        return []
    names, some = list(raw), np.flatnonzero(_moves(table))
    for size in range(1, some.size + 1):
        for chosen in combinations(some.tolist(), size):
            if close(sums.reward[at] - table[:, list(chosen)].sum(axis=1), sums.sums[at]):
                return [names[k] for k in chosen]
    return []


def _weights(header: Mapping[str, Any], names: list[str]) -> Floats:
    said = header.get("reward_weights")
    if isinstance(said, Mapping):
        said = [said.get(name) for name in names]
    usable = isinstance(said, list) and len(said) == len(names)
    if not usable or not all(isinstance(each, int | float) for each in said or ()):
        return np.ones(len(names))
    return np.array(said, dtype=np.float64)


def _moves(table: Floats) -> Bools:
    found: Bools = (table != 0).any(axis=0)
    return found
