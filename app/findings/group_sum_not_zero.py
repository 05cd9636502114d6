"""Recorded advantages of a group that do not sum to 0, although the configured estimator says they must.

GRPO, Dr. GRPO and RLOO take from each reward the mean of its group (or of the others in it), so that the
advantages of a whole group sum to 0, whatever the rewards are. Looked at are groups whose every rollout has
one recorded advantage, an unmasked token, and was not cut off; nothing is said where the header names no such
convention, whitens, clips or subtracts KL afterwards, has keys about advantages that are not understood, or
where the recorded advantages were found to be as configured.

Off is a sum above a thousandth of Σ|A| and above what single precision can leave of the rewards' size. Said
where a tenth of the groups are off. warning: what made the difference is not known from the sums alone.

Seen as: two prompts under one id, as ids restart on each rank (xtuner#1923); rollouts that were filtered or
dropped after their advantages were computed; a mean over something else than the group.

Remedy: see that the file holds all rollouts of a group and that its group ids are the trainer's; the verify
page tries other groupings.

Evidence: `convention`, `groups_off`, `compared_groups`, `worst`: `group_id`, `sum`, `sum_abs`, `rollouts`.
"""

from collections import Counter
from typing import Any

import numpy as np

from app.findings.finding import Finding, Report, report
from app.findings.recorded import BALANCED, counted, sums
from app.findings.settings import RECONCILED, said_by
from app.findings.view import Bools, Floats, View
from app.formatting import number, percent, plural
from estimators import CONVENTIONS

CODE = "group_sum_not_zero"
CENTRED = ("grpo", "dr_grpo", "rloo", "grpo_vectorized", "rloo_vectorized")
#: Settings that take the sum away from 0, where they are on.
SHIFTING = ("kl_coef", "advantage_clip", "clip", "normalize_advantages", "whiten", "length_penalty", "cap")
#: What single precision leaves of the sum of a group, relative to the size of its rewards.
SINGLE = 1e-5
SHARE = 0.1
UNEVEN = ("batch", "raw")


def check(view: View) -> Report | None:
    convention = centred_convention(view)
    if convention is None or not view.grouped or not _differs(view):
        return None
    total, size = sums(view)
    compared = _whole(view) & (size > 0)
    off = compared & (np.abs(total) > np.maximum(BALANCED * size, _rounding(view, size)))
    if not off.any() or off.sum() < SHARE * compared.sum():
        return None
    return _report(view, convention, off, compared, total, size)


def centred_convention(view: View) -> str | None:
    """The configured convention, if the advantages of each of its groups sum to 0."""
    said = said_by(view)
    if said.convention is None or said.not_understood or said.estimator not in CENTRED:
        return None
    kind, own = CONVENTIONS[said.convention], CONVENTIONS[said.convention].params
    # A clip or KL after the baseline, groups that are taken otherwise where they are uneven.
    apart = own.advantage_clip_low is not None or own.kl_placement == "to_go" or own.incomplete in UNEVEN
    levels = [str(value) for name, value in said.params.items() if name.endswith(("mean_level", "mean_type"))]
    moved = any(said.params.get(name) for name in SHIFTING) or any(level != "group" for level in levels)
    leaves_out = "loo" in said.convention or said.params.get("leave_one_out") or "reward_norm" in said.params
    weighted = any(name.startswith("num_") and value for name, value in said.params.items())
    if (
        apart
        or weighted
        or moved
        or kind.whitening.scope != "none"
        or (leaves_out and said.estimator != "rloo")
    ):
        return None
    return said.convention


def _differs(view: View) -> bool:
    """Nothing gave the recorded advantages as configured. A verdict that is not there yet says nothing."""
    found: dict[str, Any] = view.facts.get(RECONCILED) or {}
    agreeing = any(each["matched"] and each["mistake"] is None for each in found.get("candidates", ()))
    return not agreeing and found.get("verdict") != "nothing_recorded"


def _whole(view: View) -> Bools:
    """`[G]` two rollouts or more, each with one recorded advantage, a reward and an unmasked token, none cut
    off (some trainers mask or drop these after the advantages are computed)."""
    good = counted(view) & (view.truncated != 1) & ~_repeated(view)
    whole: Bools = (np.bincount(view.group, good, view.groups) == view.sizes) & (view.sizes > 1)
    return whole


def _repeated(view: View) -> Bools:
    """`[B]` of a rollout that is in several rows, which share one advantage."""
    names = view.columns.rollout_id
    if names.size != view.rollouts:
        return np.zeros(view.rollouts, dtype=bool)
    found = Counter(names.tolist())
    return np.array([name is not None and found[name] > 1 for name in names.tolist()], dtype=bool)


def _rounding(view: View, size: Floats) -> Floats:
    """`[G]` what single precision can leave: of the rewards' size over their spread, per rollout."""
    reward = np.where(view.scored, view.reward, 0.0)
    largest, low = np.zeros(view.groups), np.full(view.groups, np.inf)
    np.maximum.at(largest, view.group, np.abs(reward))
    high = np.full(view.groups, -np.inf)
    np.minimum.at(low, view.group, reward)
    np.maximum.at(high, view.group, reward)
    spread = np.maximum(high - low, 1e-7 * np.maximum(largest, 1e-30))
    left: Floats = SINGLE * size * np.maximum(largest / spread, 1.0)
    return left


def _report(view: View, convention: str, off: Bools, compared: Bools, total: Floats, size: Floats) -> Report:
    share = np.where(off, np.abs(total) / np.maximum(size, 1e-300), 0.0)
    worst = int(share.argmax())
    group = view.group_ids[worst]
    return report(
        view,
        "warning",
        f"The recorded advantages of {int(off.sum())} of {plural(int(compared.sum()), 'group')} "
        f"({percent(off.sum() / compared.sum())}) do not sum to 0, as those of {convention} do: in "
        f"{group!r} {number(total[worst])} of Σ|A| {number(size[worst])}.",
        explanation="The baseline of these groups was not the mean of the rollouts that the file has in "
        "them. The sums do not say why: rollouts may be missing from the file or have been dropped after the "
        "advantages were computed, the groups may be others than the trainer's, or the trainer may take "
        "another baseline.",
        remedy="See that the file holds every rollout of a group and that its group ids are the trainer's. "
        "The verify page tries other groupings.",
        evidence={
            "convention": convention,
            "groups_off": int(off.sum()),
            "compared_groups": int(compared.sum()),
            "worst": {
                "group_id": group,
                "sum": float(total[worst]),
                "sum_abs": float(size[worst]),
                "rollouts": int(view.sizes[worst]),
            },
        },
        groups=np.flatnonzero(off),
        rollouts=np.flatnonzero(off[view.group]),
    )


FINDING = Finding(CODE, "Advantages of a group do not sum to 0", check)
