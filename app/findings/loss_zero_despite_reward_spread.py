"""Rewards differ over the batch, yet nothing is trained: every advantage is 0.

* Between prompts only: every group with at least two scored rollouts has equal rewards, while the batch's
  rewards differ. A trainer's log shows a reward std above 0 and a loss of 0; both are right.
* Recorded zeros: rewards differ inside groups, and every recorded advantage of the batch is 0 all the same.

critical: the step learns nothing. (A loss of 0 in the log alone is no fault: at the first update of a step
the ratio is 1, and advantages centred on a group sum to 0; the gradient is not.)

Seen as: a reward_std that is not zero beside a loss that is (trl#3857, trl#3452, unsloth#2291,
ms-swift#8423).

Remedy: prompts that are neither hopeless nor solved, more samples per prompt, a higher temperature; for
recorded zeros, look at the scope of the whitening and how groups were cut into ranks and micro-batches.

Evidence: `std_over_rollouts_ddof1`, `mean_std_within_groups_ddof1`, `between_groups_share` and
`within_groups_share` of the variance, `compared_groups`, `groups_with_spread`, `recorded_zeros`.
"""

from typing import Any

import numpy as np

from app.findings import recorded
from app.findings.finding import Finding, report
from app.findings.view import GroupStatistics, View, group_statistics
from app.formatting import number, plural


def check(view: View) -> dict[str, Any] | None:
    if not view.grouped:
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    compared = np.flatnonzero((groups.scored >= 2) & view.live_groups)
    rows = view.scored & np.isin(view.group, compared)
    if compared.size == 0 or np.ptp(view.reward[rows]) == 0:
        return None
    if groups.constant[compared].all():
        return _between(view, groups, compared) if compared.size > 1 else None
    return _recorded(view, groups, compared)


def _between(view: View, groups: GroupStatistics, compared: Any) -> dict[str, Any]:
    numbers = split(view, groups, compared)
    return report(
        view,
        "critical",
        f"All {plural(compared.size, 'group')} have equal rewards: every advantage is 0, although rewards "
        f"differ over the batch (std {number(numbers['std_over_rollouts_ddof1'], 7)}, ddof 1).",
        explanation="All of the spread is between prompts; a group estimator takes each prompt's mean away, "
        "so only spread within a prompt trains. The loss is 0 by construction (but for a KL term), which is "
        "no bug of the trainer.",
        remedy="Use prompts that are neither hopeless nor solved, more samples per prompt or a higher "
        "temperature; filter and resample constant groups.",
        evidence={**numbers, "compared_groups": compared.size, "groups_with_spread": 0},
        groups=compared,
        rollouts=np.flatnonzero(view.scored & np.isin(view.group, compared)),
    )


def _recorded(view: View, groups: GroupStatistics, compared: Any) -> dict[str, Any] | None:
    given = recorded.counted(view)
    differing = compared[groups.differing[compared]]
    rows = given & np.isin(view.group, differing)
    # All of them, and on every token: a rollout without one number has tokens other than 0.
    if not rows.any() or (np.isfinite(view.advantage) & ~given & view.scored & (view.valid != 0)).any():
        return None
    if view.advantage[given].any():
        return None
    return report(
        view,
        "critical",
        f"Every recorded advantage is 0, although rewards differ in {plural(differing.size, 'group')}.",
        explanation="The signal was there and was taken away after the reward: whitened inside too small a "
        "scope (a rank or micro-batch of equal rewards), masked, or multiplied by 0.",
        remedy="Compare with the recomputed advantages; look at how groups were cut into ranks and "
        "micro-batches, and over which of them advantages were normalised.",
        evidence={
            **split(view, groups, compared),
            "compared_groups": compared.size,
            "groups_with_spread": differing.size,
            "recorded_zeros": int(given.sum()),
        },
        groups=differing,
        rollouts=np.flatnonzero(rows),
    )


def split(view: View, groups: GroupStatistics, compared: Any) -> dict[str, float]:
    """The spread of the rewards of the compared groups: over all, inside groups, and the share of each."""
    rows = view.scored & np.isin(view.group, compared)
    reward = view.reward[rows]
    inside = float(((reward - groups.mean[view.group[rows]]) ** 2).sum())
    overall = float(((reward - reward.mean()) ** 2).sum())
    share = inside / overall if groups.differing[compared].any() else 0.0
    spread = np.where(groups.constant[compared], 0.0, groups.std[compared])
    return {
        "std_over_rollouts_ddof1": float(reward.std(ddof=1)),
        "mean_std_within_groups_ddof1": float(spread.mean()),
        "between_groups_share": 1.0 - share,
        "within_groups_share": share,
    }


FINDING = Finding("loss_zero_despite_reward_spread", "Rewards differ, yet every advantage is 0", check)
