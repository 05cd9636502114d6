"""Whether recorded advantages obey GAE's recursion, and with which γ and λ, without being told them.

Between two adjacent trainable tokens every variant of GAE says the same:

A_t + V_t − r_t = γ·V_{t+1} + γλ·A_{t+1}

which is linear in γ and γλ: two numbers that least squares finds from the tokens themselves. The advantages
must be those before whitening: `returns` − `values` where returns are recorded, else `advantages`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.findings.part import Part
from app.findings.token_facts import REWARDS
from app.findings.view import Bools, Floats, Ints

#: Error up to which numbers are the same, relative to the size of values and advantages: float32 and files of
#: four digits pass.
SAME = 2e-4
#: So many pairs tell at once where nothing fits.
FEW = 2048
#: γ and λ that are tried where the tokens do not determine them.
LAMS = (1.0, 0.95, 0.9, 0.97, 0.98, 0.99, 0.8)
USUAL = tuple((gamma, gamma * lam) for gamma in (1.0, 0.99, 0.95, 0.9) for lam in LAMS)


@dataclass(frozen=True, slots=True)
class Recorded:
    """`[N]` each; `known` where advantage and value are numbers. `scale`: size of those of trainable "
    "tokens."""

    advantage: Floats
    value: Floats
    reward: Floats
    known: Bools
    scale: float


def recorded(part: Part, rewards: Floats) -> Recorded | None:
    """What GAE was made of; `rewards` `[R]` stand on the last trainable token where no token reward is "
    "recorded."""
    value, advantage, returns = part.floats("values"), part.floats("advantages"), part.floats("returns")
    if value is None or (advantage is None and returns is None):
        return None
    made = advantage if returns is None else returns - value
    assert made is not None
    known = np.isfinite(made) & np.isfinite(value)
    live = known & part.mask
    if not live.any():
        return None
    reward = next((found for name in REWARDS[::-1] if (found := part.floats(name)) is not None), None)
    if reward is None:
        last = part.last(part.mask)
        reward = np.zeros(part.tokens)
        reward[last[last >= 0]] = np.nan_to_num(rewards[last >= 0])
    scale = float(max(np.abs(made[live]).max(), np.abs(value[live]).max(), 1e-6))
    return Recorded(
        np.where(known, made, 0.0), np.where(known, value, 0.0), np.nan_to_num(reward), known, scale
    )


def adjacent(part: Part, known: Bools) -> Bools:
    """`[N]` this token and the next are trainable, of one rollout, and known."""
    live = part.mask & known
    found = np.zeros(part.tokens, dtype=bool)
    found[:-1] = live[:-1] & live[1:]
    found[part.ends[part.lengths > 0]] = False
    return found


def _inside(part: Part, made: Recorded, at: Ints, shift: int) -> Ints:
    """Those of the places whose shifted values are of the same rollout, trainable and known."""
    if not shift:
        return at
    owner = part.owner[at]
    at = at[(at + shift >= part.starts[owner]) & (at + 1 + shift <= part.ends[owner])]
    live = part.once("trainable and known", lambda: part.mask & made.known)
    found: Ints = at[live[at + shift] & live[at + 1 + shift]]
    return found


def _pairs(made: Recorded, at: Ints, shift: int) -> tuple[Floats, Floats, Floats]:
    """Left side, V_{t+1} and A_{t+1} of the equation at these places."""
    wanted = made.advantage[at] + made.value[at + shift] - made.reward[at]
    return wanted, made.value[at + 1 + shift], made.advantage[at + 1]


def _hopeless(wanted: Floats, value: Floats, advantage: Floats, tolerance: float) -> bool:
    """Whether no γ and λ at all keep every one of these few errors within the tolerance: where some did, the
    least possible mean square would be within it too."""
    if wanted.size < FEW:
        return False
    columns = np.stack([value, advantage], axis=1)
    error = columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0] - wanted
    return float(np.sqrt(np.mean(error**2))) > 1.01 * tolerance


def parameters(
    part: Part, made: Recorded, header: Mapping[str, Any], shift: int = 0
) -> tuple[float, float] | None:
    """γ and γλ under which all adjacent tokens agree; None where no such pair exists.

    With `shift` the value of token t is taken to be the one recorded for token t + shift.
    """
    at = part.once("adjacent", lambda: np.flatnonzero(adjacent(part, made.known)))
    tolerance = SAME * made.scale
    # Nearly always a few of the first tell.
    if _hopeless(*_pairs(made, _inside(part, made, at[: 8 * FEW], shift)[:FEW], shift), tolerance):
        return None
    at = _inside(part, made, at, shift)
    if _hopeless(*_pairs(made, at[:FEW], shift), tolerance):
        return None
    wanted, value, advantage = _pairs(made, at, shift)
    tried: list[tuple[float, float]] = []
    gamma, lam = header.get("gamma"), header.get("lam")
    if (
        isinstance(gamma, int | float)
        and isinstance(lam, int | float)
        and bool not in (type(gamma), type(lam))
    ):
        tried.append((float(gamma), float(gamma) * float(lam)))
    a, b, d = float(value @ value), float(value @ advantage), float(advantage @ advantage)
    if at.size >= 2 and a * d - b * b > 1e-9 * max(a * d, 1e-300):
        p, q = float(value @ wanted), float(advantage @ wanted)
        tried.append(((d * p - b * q) / (a * d - b * b), (a * q - b * p) / (a * d - b * b)))
    elif not tried and not shift:
        tried.extend(USUAL)
    for gamma, both in tried:
        error = np.abs(wanted - gamma * value - both * advantage)
        plausible = -1e-3 <= both <= gamma + 1e-3 and 0 <= gamma <= 1.001
        if plausible and (not at.size or float(error.max()) <= tolerance):
            return gamma, both
    return None
