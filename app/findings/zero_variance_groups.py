"""Groups whose rewards are all the same: every estimator that compares siblings gives them advantage 0.

Groups without a single trainable token are set aside: they fill up the batch. Silent in a split that is
measured and not trained on, and where the header, or the recorded numbers, speak for an estimator whose
baseline is not the group.

Seen as: a loss of 0, a gradient norm that fades, a batch that is smaller than configured after dynamic
sampling (trl#3857, AReaL#450, ART#10, trl#7068).

Remedy: filter or resample such prompts, where any other group is left; mix in prompts of middle difficulty,
raise the number of samples per prompt.

Evidence: `constant_groups`, `compared_groups`, `share`, `at_lowest_reward`, `at_highest_reward`,
`rollouts`, `std_over_rollouts_ddof1`, `mean_std_within_groups_ddof1`, `tried` (the filter: `helps`,
`groups_left`, `times_mean_abs_advantage`: by how much the mean |advantage| of a rollout grows).
"""

from typing import Any

import numpy as np

from app.findings import remedies
from app.findings.fillers import sampled
from app.findings.finding import Finding, Severity, report
from app.findings.remedies import Tried
from app.findings.settings import baseline_of, is_evaluation
from app.findings.view import GroupStatistics, Ints, View, group_statistics
from app.formatting import number, percent, plural

#: Some solved and some hopeless prompts are normal; from these shares of groups on they are not.
WARNING, CRITICAL = 0.25, 0.5


def check(view: View) -> dict[str, Any] | None:
    view = sampled(view)
    if not view.grouped or is_evaluation(view) or baseline_of(view) in ("batch", "apart"):
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    constant = np.flatnonzero(groups.constant & view.live_groups)
    compared = int((view.live_groups & (groups.scored >= 2)).sum())
    if constant.size == 0:
        return None
    share = constant.size / compared
    severity: Severity = "critical" if share > CRITICAL else "warning" if share >= WARNING else "info"
    levels = groups.mean[constant]
    lowest, highest = np.nanmin(view.reward), np.nanmax(view.reward)
    scored = view.reward[view.scored]
    spread = float(scored.std(ddof=1)) if scored.size > 1 else float("nan")
    tried = [_filter(groups, constant, compared)]
    return report(
        view,
        severity,
        f"{constant.size} of {plural(compared, 'group')} ({percent(share)}) "
        f"{'has' if constant.size == 1 else 'have'} rewards that are all equal: no learning signal.",
        explanation="Their rollouts differ from the group mean by 0, so GRPO, RLOO and Dr. GRPO give every "
        "one of them advantage 0; they cost generation and still sit in the loss denominator and the KL "
        "term. Spread between prompts does not help: only spread within a prompt trains.",
        remedy=remedies.advice(
            tried,
            "",
            "Mix in prompts of middle difficulty, or raise the number of samples per prompt.",
        ),
        evidence={
            "constant_groups": constant.size,
            "compared_groups": compared,
            "share": share,
            "at_lowest_reward": int((levels == lowest).sum()) if lowest < highest else 0,
            "at_highest_reward": int((levels == highest).sum()) if lowest < highest else 0,
            "rollouts": int(np.isin(view.group, constant).sum()),
            "std_over_rollouts_ddof1": spread,
            "mean_std_within_groups_ddof1": float(np.nanmean(groups.std[groups.scored >= 2])),
            "tried": remedies.numbers_of(tried),
        },
        groups=constant,
        rollouts=np.flatnonzero(np.isin(view.group, constant)),
    )


def _filter(groups: GroupStatistics, constant: Ints, compared: int) -> Tried:
    """What is left without these groups. Their advantages are 0, so the mean of the others' sizes grows as
    the number of rollouts falls."""
    left = compared - constant.size
    others = int(groups.scored[groups.differing].sum())
    times = (others + int(groups.scored[constant].sum())) / others if others else None
    sentence = (
        f"Filter or resample such prompts (dynamic sampling): {left} of {plural(compared, 'group')} "
        f"{'stays' if left == 1 else 'stay'}, and the mean |advantage| of a rollout is {number(times)} times "
        "as large."
    )
    return Tried("filter", left > 0, sentence, {"groups_left": left, "times_mean_abs_advantage": times})


FINDING = Finding("zero_variance_groups", "Groups whose rewards are all equal", check)
