"""Groups with a single scored rollout, or none: there is nothing to compare with.

Silent where no group is needed (`View.uses_groups`, or an estimator with another baseline), and in a split
that is measured and not trained on.
critical where all groups are single, but only a warning where the header says that a prompt has one response.

Seen as: advantages that are raw rewards, all of one sign; NaN or a crash with a group of one (rllm#776,
verl#7581, prime-rl#2985, OpenRLHF#1250).

Remedy: group by the prompt's text, where that gives most of these rollouts a sibling; else see that the
sampler asks for more than one response.

Evidence: `groups`, `groups_with_one_rollout`, `groups_with_one_score`, `groups_with_no_score`, `share`,
`tried` (grouping by prompt: `helps`, how many `rollouts` get a sibling, in how many `groups`, and
`groups_with_signal`).
"""

from typing import Any

import numpy as np

from app.findings import remedies
from app.findings.fillers import sampled
from app.findings.finding import Finding, Severity, report
from app.findings.remedies import Tried
from app.findings.settings import baseline_of, group_size, is_evaluation
from app.findings.view import Bools, View, group_statistics
from app.formatting import percent, plural

#: Where every one of these rollouts has a prompt of its own, and where that is not known or not so.
ALONE = "Let the sampler ask for more than one response: no other scored row has the prompt of one of these."
UNKNOWN = (
    "Check which column groups the rows (prompt text with a changing path or a fresh id for each row makes "
    "every row its own group), or that the sampler asks for more than one response."
)


def check(view: View) -> dict[str, Any] | None:
    if is_evaluation(view) or baseline_of(view) in ("batch", "apart"):
        return None
    view = sampled(view)
    if not view.uses_groups or not view.scored.any() or view.rollouts < 2:
        return None
    scored = np.bincount(view.group[view.scored], minlength=view.groups)
    single, none = scored == 1, scored == 0
    alone = np.flatnonzero(single | none)
    everything = alone.size == view.groups
    if alone.size == 0:
        return None
    share = alone.size / view.groups
    meant = group_size(view) == 1 and bool((view.sizes == 1).all())
    severity: Severity = "warning" if share >= 0.1 else "info"
    if everything and not meant:
        severity = "critical"
    what = f"{alone.size} of {plural(view.groups, 'group')} ({percent(share)})"
    if everything:
        what = f"All {plural(view.groups, 'group')} have at most one scored rollout"
        title = f"{what}: the group key is probably wrong."
        if meant:
            title = f"{what}, as the header says (one response for each prompt): there is no baseline."
    else:
        what += " has" if alone.size == 1 else " have"
        title = f"{what} no sibling to compare with (at most one scored rollout)."
    tried = _by_prompt(view, np.isin(view.group, alone) & view.scored)
    otherwise = ALONE if tried and not tried[0].numbers["rollouts"] else UNKNOWN
    return report(
        view,
        severity,
        title,
        explanation="Without a sibling there is no baseline. Some trainers then use the raw reward as the "
        "advantage (verl's grpo: mean 0, std 1), some give 0, some NaN; a raw reward next to centred ones is "
        "a push in one direction whatever the answer was.",
        remedy=remedies.advice(tried, otherwise),
        evidence={
            "groups": view.groups,
            "groups_with_one_rollout": int((view.sizes == 1).sum()),
            "groups_with_one_score": int(single.sum()),
            "groups_with_no_score": int(none.sum()),
            "share": share,
            "tried": remedies.numbers_of(tried),
        },
        groups=alone,
        rollouts=np.flatnonzero(np.isin(view.group, alone)),
    )


def _by_prompt(view: View, rows: Bools) -> list[Tried]:
    """Grouping by the prompt's text: what that gives `rows` `[B]`, where all have one."""
    if view.prompts.number.size != view.rollouts or not rows.any() or (view.prompts.number[rows] < 0).any():
        return []
    _, prompt = np.unique(view.prompts.number, return_inverse=True)
    groups = group_statistics(view.reward, prompt.reshape(-1), int(prompt.max()) + 1)
    mine = np.unique(prompt[rows])
    shared = mine[groups.scored[mine] >= 2]
    count = int((rows & np.isin(prompt, shared)).sum())
    signal = int(groups.differing[shared].sum())
    sentence = (
        f"Group by the prompt's text: {count} of {plural(int(rows.sum()), 'such rollout')} would have a "
        f"sibling, in {plural(shared.size, 'group')}, {signal} of them with rewards that differ."
    )
    numbers = {"rollouts": count, "groups": shared.size, "groups_with_signal": signal}
    return [Tried("group_by_prompt", 2 * count >= int(rows.sum()), sentence, numbers)]


FINDING = Finding("singleton_groups", "Groups with a single scored rollout", check)
