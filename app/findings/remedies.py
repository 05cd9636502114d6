"""Remedies that can be tried on the batch are tried: what they give is stated in numbers, and one that does
not help is not given.

GDPO: Σ_k w_k · z_k, each component's z-score within its group (ddof 1), before any whitening over the batch,
which keeps the order (Liu et al. 2026, arXiv:2601.05242).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.findings import components
from app.findings.view import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Tried:
    """A remedy as it was tried. `sentence`: what to do, and what it gives here. `numbers`: its evidence."""

    name: str
    helps: bool
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)


def advice(tried: Sequence[Tried], otherwise: str, always: str = "") -> str:
    """The sentences of what helps; `otherwise` where nothing does. `always`: what cannot be tried."""
    helping = [each.sentence for each in tried if each.helps] or ([otherwise] if otherwise else [])
    return " ".join([*helping, *([always] if always else [])])


def numbers_of(tried: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """Evidence: name of a remedy -> whether it helps, and its numbers."""
    return {each.name: {"helps": each.helps, **each.numbers} for each in tried}


def gdpo(values: Floats, weights: Floats, group: Ints, groups: int) -> Floats:
    """`[R]` what GDPO makes of components `[R, K]` before whitening; 0 for one without spread in a group."""
    return settled(components.apart(values, group, groups) @ weights)


def standardised(total: Floats, group: Ints, groups: int) -> Floats:
    """`[R]` z-scores of a reward `[R]` within its groups (ddof 1)."""
    return components.z_scores(components.centre(total[:, None], group, groups)[:, 0], group, groups)


def settled(values: Floats) -> Floats:
    """The same, but exactly 0 where only rounding is left."""
    found: Floats = np.where(np.abs(values) <= 1e-9 * max(1.0, np.abs(values).max(initial=0.0)), 0.0, values)
    return found


def share_in(values: Floats, inside: Bools) -> float:
    """Share of Σ|values| `[R]` that those `inside` `[R]` have; 0 where all are 0."""
    size = np.abs(values)
    whole = float(size.sum())
    return float(size[inside].sum()) / whole if whole > 0 else 0.0


def against(values: Floats, judged: Floats, group: Ints, groups: int) -> Bools:
    """`[G]` rollouts that are better by `judged` `[R]` (0: as good as their siblings' mean) get less on
    average than those that are worse."""
    mean = []
    for side in (judged > 0, judged < 0):
        count = np.bincount(group[side], minlength=groups)
        total = np.bincount(group[side], values[side], minlength=groups)
        mean.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    with np.errstate(invalid="ignore"):
        found: Bools = mean[0] < mean[1] - 1e-9
    return found
