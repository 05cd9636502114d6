"""Recorded advantages as the checks need them: one number per rollout, or none."""

import numpy as np

from app.findings.view import Bools, Floats, GroupStatistics, View

#: Spread of the recorded advantages inside a rollout, relative to their size, that counts as one number.
SAME = 1e-6
#: A group's recorded advantages sum to 0, but for what float32 and a rounded export leave, relative to Σ|A|.
BALANCED = 1e-3


def one_per_rollout(view: View) -> Bools:
    """`[B]` an advantage is recorded, and it is one number for the whole rollout."""
    given: Bools = np.isfinite(view.advantage)
    spread = view.tokens.advantage_spread
    if spread is not None:
        given &= ~(spread > SAME * np.maximum(np.abs(view.advantage), 1e-9))
    return given


def counted(view: View) -> Bools:
    """`[B]` has one recorded advantage and a reward, and is not masked as a whole."""
    found: Bools = one_per_rollout(view) & view.scored & (view.valid != 0)
    return found


def sums(view: View) -> tuple[Floats, Floats]:
    """`[G]` ΣA and Σ|A| of the counted rollouts of each group."""
    rows = counted(view)
    advantage = np.where(rows, view.advantage, 0.0)
    total: Floats = np.bincount(view.group, advantage, minlength=view.groups).astype(np.float64)
    size: Floats = np.bincount(view.group, np.abs(advantage), minlength=view.groups).astype(np.float64)
    return total, size


def centred_on_groups(view: View, groups: GroupStatistics) -> bool:
    """In most groups with differing rewards the recorded advantages sum to 0: they are the baseline."""
    total, size = sums(view)
    known = groups.differing & (size > 0)
    if not known.any():
        return False
    return bool(np.median(np.abs(total[known]) / size[known]) <= BALANCED)


def z_bound(n: int | Floats) -> Floats:
    """Largest z-score, by size, that one of n values can have (std with ddof 0, which is the larger): √(n−1).

    With ddof 1 it is (n−1)/√n.
    """
    found: Floats = np.sqrt(np.maximum(np.asarray(n, dtype=np.float64) - 1.0, 0.0))
    return found
