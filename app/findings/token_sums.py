"""What stands on a rollout's tokens as reward, beside its own reward: sums, and where they differ."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.findings.part import Part
from app.findings.token_facts import REWARDS
from app.findings.view import Bools, Floats, Ints, View

#: Share of a reward's size that bfloat16 may have cut off.
PRECISION, TINY = 2.0**-7, 1e-6
#: Estimates of a token's KL from two log-probs, d = old − ref: k1, abs, k2, k3.
PENALTIES = ("k1", "abs", "k2", "k3")


@dataclass(slots=True)
class Sums:
    """`[B]` each, of the rollouts with both; the others are 0.

    sums        of the rewards of all tokens, and `compared`: there is one, a reward and a trainable token
    off         the sum is not the reward, nor is that of the trainable tokens alone
    rewarded    tokens with a reward other than 0; `dense`: most trainable tokens have one, of their own
    each        every trainable token has the whole reward
    last, high, low   of the tokens with a reward
    kl          name of an estimate -> its sum over the trainable tokens, NaN where it is not known; as
                `kl all` with masked tokens
    field       whose sums these are; of both, the rewards before a KL penalty
    """

    reward: Floats
    sums: Floats
    compared: Bools
    off: Bools
    rewarded: Ints
    dense: Bools
    each: Bools
    last: Floats
    high: Floats
    low: Floats
    kl: dict[str, Floats] = field(default_factory=dict)
    field: str | None = None


def begin(view: View) -> Sums:
    def zeros(dtype: Any = np.float64) -> Any:
        return np.zeros(view.rollouts, dtype=dtype)

    return Sums(
        reward=view.reward,
        sums=zeros(),
        compared=zeros(bool),
        off=zeros(bool),
        rewarded=zeros(np.int64),
        dense=zeros(bool),
        each=zeros(bool),
        last=zeros(),
        high=zeros(),
        low=zeros(),
    )


def observe(part: Part, state: Sums) -> None:
    name = next((name for name in REWARDS if name in part.names), None)
    if name is None:
        return
    state.field = state.field or name
    values, rows = _finite(part, name), part.rows
    reward = state.reward[rows]
    total = part.sum(values)
    compared = part.has(name) & np.isfinite(reward) & (part.count(part.mask) > 0)
    state.sums[rows], state.compared[rows] = np.where(compared, total, 0.0), compared
    off = compared & differs(part, values, total, reward)
    if off.any() and name != REWARDS[-1] and REWARDS[-1] in part.names:
        other = _finite(part, REWARDS[-1])
        off &= differs(part, other, part.sum(other), reward)
    state.off[rows] = off
    if off.any():
        _details(part, values, reward, state)
        _penalties(part, state)


def differs(part: Part, values: Floats, total: Floats, reward: Floats) -> Bools:
    """`[R]` neither all tokens nor the trainable ones sum up to the reward, but for bfloat16's precision."""
    with np.errstate(invalid="ignore"):
        wide = PRECISION * np.maximum(np.abs(reward), np.abs(total)) + TINY
        off: Bools = np.abs(total - reward) > wide
        if off.any():
            size = part.sum(np.abs(values))
            wide = np.maximum(wide, 4 * np.finfo(np.float32).eps * size)
            trained = part.sum(np.where(part.mask, values, 0.0))
            off &= (np.abs(total - reward) > wide) & (np.abs(trained - reward) > wide)
    return off


def _finite(part: Part, name: str) -> Floats:
    values = part.floats(name)
    assert values is not None
    return np.where(np.isfinite(values), values, 0.0)


def _details(part: Part, values: Floats, reward: Floats, state: Sums) -> None:
    rows, given = part.rows, values != 0
    live = np.maximum(part.count(part.mask), 1)
    rewarded = part.count(given)
    place = part.last(given)
    some = place >= 0
    state.rewarded[rows] = rewarded
    state.last[rows] = np.where(some, values[np.maximum(place, 0)], 0.0)
    state.high[rows] = np.where(some, part.high(np.where(given, values, -np.inf)), 0.0)
    state.low[rows] = np.where(some, part.low(np.where(given, values, np.inf)), 0.0)
    inside = part.count(given & part.mask)
    # Of a single token nobody can say whether a penalty per token is in it.
    most = (2 * inside > live) & ((inside >= 2) | (state.field == REWARDS[-1]))
    alike = np.abs(values - part.spread(reward)) <= PRECISION * np.abs(part.spread(reward))
    each = (live >= 2) & (reward != 0) & (part.count(alike & part.mask) == live)
    state.each[rows], state.dense[rows] = each, most & ~each


def _penalties(part: Part, state: Sums) -> None:
    for name, (values, has) in penalties(part).items():
        known = has & np.isfinite(values)
        some = part.count(known & part.mask) == part.count(part.mask)
        for kind, where in ((name, known & part.mask), (f"{name} all", known)):
            kept = state.kl.setdefault(kind, np.full(state.reward.size, np.nan))
            kept[part.rows] = np.where(some, part.sum(np.where(where, values, 0.0)), np.nan)


def penalties(part: Part) -> dict[str, Any]:
    """Name -> (KL of every token by one estimate `[N]`, where it is known `[N]`)."""
    found: dict[str, Any] = {}
    if (kl := part.floats("kl")) is not None:
        found["kl"] = kl, part.has_token("kl")
    ref = part.floats("ref_log_probs")
    for own in ("old_log_probs", "rollout_log_probs"):
        old = part.floats(own)
        if old is None or ref is None:
            continue
        has = part.has_token(own) & part.has_token("ref_log_probs")
        with np.errstate(over="ignore", invalid="ignore"):
            d = np.clip(old - ref, -20.0, 20.0)
            estimates = d, np.abs(d), d**2 / 2, np.exp(-d) - 1 + d
        found |= {f"{own} {name}": (each, has) for name, each in zip(PENALTIES, estimates, strict=True)}
    return found
