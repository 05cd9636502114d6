"""Rollouts without a trainable token whose reward still takes part in the group's mean.

Silent where the estimator has another baseline than the group.

Seen as: siblings' advantages that move although a row is masked; filtered or overlong rows that still shape
the mean (verl#6310, verl#6452, trl#3248, OpenRLHF#1239).

Remedy: take the row out of the group before its mean, not only out of the loss.

Evidence: `fully_masked`, `rollouts`, `share`, `groups`, `largest_shift_of_group_mean`, `reward_of_first`,
`siblings_change_from_no_signal`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.settings import baseline_of
from app.findings.view import View, group_statistics
from app.formatting import number, percent, plural


def check(view: View) -> dict[str, Any] | None:
    if not view.uses_groups or baseline_of(view) in ("batch", "apart"):
        return None
    masked = (view.valid == 0) & view.scored
    live = np.bincount(view.group[(view.valid != 0) & view.scored], minlength=view.groups)
    voting = masked & (live[view.group] > 0)
    if not voting.any():
        return None
    found = np.flatnonzero(voting)
    touched = np.unique(view.group[found])
    with_them = group_statistics(view.reward, view.group, view.groups)
    without = group_statistics(np.where(view.valid == 0, np.nan, view.reward), view.group, view.groups)
    shift = np.abs(with_them.mean - without.mean)[touched]
    share = found.size / view.rollouts
    moved = float(shift.max())
    severity: Severity = "info" if moved == 0 else "critical" if share >= 0.1 else "warning"
    return report(
        view,
        severity,
        f"{found.size} of {plural(view.rollouts, 'rollout')} ({percent(share)}) "
        f"{'has' if found.size == 1 else 'have'} no trainable token but a reward that votes in "
        f"{plural(touched.size, 'group')}: the group mean moves by up to {number(moved)}.",
        explanation="The rollout itself teaches nothing, but a group mean and std that include it change the "
        "advantage of every sibling. Masking truncated responses without taking them out of the baseline "
        "does this.",
        remedy="Leave rollouts without trainable tokens out of the group's statistics, or give them no "
        "reward.",
        evidence={
            "fully_masked": found.size,
            "rollouts": view.rollouts,
            "share": share,
            "groups": touched.size,
            "largest_shift_of_group_mean": moved,
            "reward_of_first": float(view.reward[found[0]]),
            "siblings_change_from_no_signal": int((without.constant & with_them.differing).sum()),
        },
        groups=touched,
        rollouts=found,
    )


FINDING = Finding(
    "fully_masked_rollout_votes", "Rollouts without trainable tokens vote in the group mean", check
)
