"""Rewards differ over the batch, yet nothing is trained: every advantage is 0.

* Recorded zeros: every recorded advantage of the batch is 0, on every trainable token, although rewards
  differ. The reading names what fits: groups of one subtract their own reward; groups were cut into pieces
  (a rank, a micro-batch) of equal rewards; no token is trainable; otherwise the signal was taken away after
  the reward, by a filter, a mask or a factor of 0.
* Between prompts only: every group with at least two scored rollouts has equal rewards, while the batch's
  rewards differ. A trainer's log shows a reward std above 0 and a loss of 0; both are right. Not named where
  the header names an estimator whose baseline is not the group.

critical: the step learns nothing. (A loss of 0 in the log alone is no fault: at the first update of a step
the ratio is 1, and advantages centred on a group sum to 0; the gradient is not.) Silent in a split that is
measured and not trained on.

Seen as: a reward_std that is not zero beside a loss that is (trl#3857, trl#3452, unsloth#2291,
ms-swift#8423, rllm#916).

Remedy: prompts that are neither hopeless nor solved, more samples per prompt, a higher temperature; for
recorded zeros, look at the scope of the whitening and how groups were cut into ranks and micro-batches.

Evidence: `kind` ("between_prompts" | "alone" | "pieces" | "masked" | "zeros"), `std_over_rollouts_ddof1`,
`mean_std_within_groups_ddof1`, `between_groups_share` and `within_groups_share` of the variance,
`compared_groups`, `groups_with_spread`, `recorded_zeros`; of groups of one, too, `std_over_rollouts_ddof0`.
"""

from typing import Any, Literal

import numpy as np

from app.findings import recorded
from app.findings.finding import Finding, report
from app.findings.partitions import dense
from app.findings.settings import baseline_of, is_evaluation
from app.findings.view import ROUNDING, Bools, Floats, GroupStatistics, View, group_statistics
from app.formatting import number, plural

Kind = Literal["alone", "pieces", "masked", "zeros"]
PIECES = ("rank", "micro_batch")
READINGS: dict[Kind, tuple[str, str]] = {
    "alone": (
        "A group of one that takes its own mean away is left with 0, whatever its reward.",
        "Sample several responses for each prompt, or use an estimator whose baseline is the batch, a critic "
        "or none.",
    ),
    "pieces": (
        "Rewards are equal in every piece of a group on one rank or in one micro-batch: normalised in each "
        "piece alone they become 0.",
        "Keep a group on one rank and in one micro-batch, or gather its rewards before the baseline.",
    ),
    "masked": (
        "No token of the batch is trainable: every one is masked.",
        "Look at what makes the mask: the roles of the turns, a filter, a wrong offset of the response.",
    ),
    "zeros": (
        "The signal was there and was taken away after the reward: whitened inside too small a scope (a rank "
        "or micro-batch of equal rewards), filtered, masked, or multiplied by 0.",
        "Compare with the recomputed advantages; look at how groups were cut into ranks and micro-batches, "
        "over which of them advantages were normalised, and what filters came after.",
    ),
}


def check(view: View) -> dict[str, Any] | None:
    if is_evaluation(view):
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    compared = np.flatnonzero((groups.scored >= 2) & view.live_groups)
    rows = _zeros(view)
    if rows is not None:
        return _recorded(view, groups, compared, rows)
    if not view.grouped or compared.size < 2 or baseline_of(view) in ("batch", "apart"):
        return None
    return _between(view, groups, compared) if groups.constant[compared].all() else None


def _zeros(view: View) -> Bools | None:
    """`[B]` scored rollouts with recorded advantages, where all of these are 0 and their rewards differ in
    some group, or, where no group has two, at all."""
    if (view.valid == 0).all():
        rows = view.scored & (np.isfinite(view.advantage) | (view.fields.get("advantages") == "recorded"))
    else:
        rows = recorded.counted(view)
        # A rollout without one number has tokens other than 0.
        if (np.isfinite(view.advantage) & ~rows & view.scored & (view.valid != 0)).any():
            return None
    if rows.sum() < 2 or np.nan_to_num(view.advantage[rows]).any():
        return None
    groups = group_statistics(np.where(rows, view.reward, np.nan), view.group, view.groups)
    apart = not view.grouped or bool((groups.scored < 2).all()) or baseline_of(view) in ("batch", "apart")
    low, high = float(view.reward[rows].min()), float(view.reward[rows].max())
    spread = high - low > ROUNDING * max(abs(low), abs(high))
    return rows if groups.differing.any() or (apart and spread) else None


def _between(view: View, groups: GroupStatistics, compared: Any) -> dict[str, Any] | None:
    rows = view.scored & np.isin(view.group, compared)
    if np.ptp(view.reward[rows]) == 0:
        return None
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
        "temperature. A filter for constant groups would leave none of this batch.",
        evidence={
            "kind": "between_prompts",
            **numbers,
            "compared_groups": compared.size,
            "groups_with_spread": 0,
        },
        groups=compared,
        rollouts=np.flatnonzero(rows),
    )


def _recorded(view: View, groups: GroupStatistics, compared: Any, rows: Bools) -> dict[str, Any]:
    kind, reward = _kind(view, rows), view.reward[rows]
    why, remedy = READINGS[kind]
    differing = compared[groups.differing[compared]]
    numbers = split(view, groups, compared) if compared.size else {}
    spread = {"std_over_rollouts_ddof1": float(reward.std(ddof=1))}
    if kind == "alone":
        spread["std_over_rollouts_ddof0"] = float(reward.std())
        why += f" {_without_baseline(reward)}"
    where = f"in {plural(differing.size, 'group')}" if differing.size else "over the batch"
    title = f"Every recorded advantage is 0, although rewards differ {where} "
    return report(
        view,
        "critical",
        f"{title}(std {number(spread['std_over_rollouts_ddof1'], 4)}, ddof 1)"
        + (f": all {plural(view.groups, 'group')} have one rollout." if kind == "alone" else "."),
        explanation=f"Nothing is learned from this step. {why}",
        remedy=remedy,
        evidence={
            "kind": kind,
            **spread,
            **numbers,
            "compared_groups": compared.size,
            "groups_with_spread": differing.size,
            "recorded_zeros": int(rows.sum()),
        },
        groups=differing if differing.size else np.unique(view.group[rows]) if view.grouped else (),
        rollouts=np.flatnonzero(rows & (np.isin(view.group, differing) | (differing.size == 0))),
    )


def _kind(view: View, rows: Bools) -> Kind:
    if (view.valid == 0).all():
        return "masked"
    if view.grouped and (np.bincount(view.group[rows], minlength=view.groups) <= 1).all():
        return "alone"
    for name in PIECES:
        known = view.columns.known.get(name)
        if known is None or known.size != view.rollouts or not known[rows].all():
            continue
        piece = dense(view.group, getattr(view.columns, name))
        if not group_statistics(
            np.where(rows, view.reward, np.nan), piece, int(piece.max()) + 1
        ).differing.any():
            return "pieces"
    return "zeros"


def _without_baseline(reward: Floats) -> str:
    """What rewards over the batch's std would be, for groups of one that keep their reward."""
    scaled = reward / (reward.std() + 1e-6)
    return (
        "Where a group of one keeps its reward, divided by the batch's population std + 1e-6, advantages "
        f"would go from {number(float(scaled.min()), 4)} to {number(float(scaled.max()), 4)}."
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
