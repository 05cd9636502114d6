"""Which rollouts were compared with each other, as the recorded advantages show it.

Every estimator with a group baseline (GRPO, Dr. GRPO, RLOO, …) gives the members of what it took for a group
advantages that sum to 0. So where another cut of the batch (runs of N rows, rows of one rank, rows of one
prompt text) has pieces whose rewards are *not* balanced around their groups' means, those pieces tell: their
recorded advantages sum to 0 if the piece was the baseline, and do not if the group was.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.findings.recorded import counted
from app.findings.view import Bools, Floats, Ints, View, group_statistics

#: |ΣA| ÷ Σ|A| below which advantages sum to 0: what float32, or a file with four digits, leaves.
BALANCED = 1e-3
#: |Σ(r − group mean)| ÷ Σ|r − group mean| above which a piece could tell.
TELLING = 1e-2
#: Share of the telling pieces that must agree.
AGREE = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """`baseline`: what was compared, "piece" or "group"; None where the advantages do not say.

    `telling` pieces could tell, `balanced` of them sum to 0. `constant` `[G]` groups whose rewards are all
    equal and whose recorded advantages are not 0, which no baseline within the group can give.
    """

    baseline: Literal["piece", "group"] | None
    telling: int
    balanced: int
    constant: Bools


def judge(view: View, piece: Ints) -> Verdict:
    """`piece` `[B]` 0 … P−1, or −1 for a rollout in none."""
    groups = group_statistics(view.reward, view.group, view.groups)
    rows = counted(view) & (piece >= 0)
    advantage = np.where(rows, view.advantage, 0.0)
    constant = groups.constant & (_sums(np.abs(advantage), view.group, view.groups) > 0)
    if not np.any(advantage != 0):
        return Verdict(None, 0, 0, constant)
    centred = np.where(rows, view.reward - groups.mean[view.group], 0.0)
    place, count = np.maximum(piece, 0), int(piece.max()) + 1
    expected, around = _sums(centred, place, count), _sums(np.abs(centred), place, count)
    total, size = _sums(advantage, place, count), _sums(np.abs(advantage), place, count)
    telling = np.abs(expected) > np.maximum(TELLING * around, 1e-9)
    balanced = telling & (np.abs(total) <= BALANCED * size)
    of, even = int(telling.sum()), int(balanced.sum())
    if of == 0:
        return Verdict(None, 0, 0, constant)
    baseline: Literal["piece", "group"] | None = None
    if even >= AGREE * of:
        baseline = "piece"
    elif of - even >= AGREE * of:
        baseline = "group"
    return Verdict(baseline, of, even, constant)


def group_sums(view: View) -> Floats:
    """`[G]` ΣA of the recorded advantages."""
    return _sums(np.where(counted(view), view.advantage, 0.0), view.group, view.groups)


def dense(*keys: Ints) -> Ints:
    """`[B]` 0 … P−1: equal where all keys are equal."""
    _, number = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int64)


def _sums(values: Floats, key: Ints, count: int) -> Floats:
    return np.bincount(key, values, minlength=count).astype(np.float64)
