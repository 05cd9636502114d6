"""Groups of different sizes: trainers that group by position then mix prompts.

Seen as: shifted groups from the first odd one on, shape errors in a reshape, a last group with advantages
of a million (AReaL#1673, slime#2230, open-instruct#1794).

Remedy: find out why rollouts are missing; group by id, not by position.

Evidence: `usual_size`, `groups_of_other_size`, `groups`, `groups_by_size`.
"""

from typing import Any

import numpy as np

from app.findings.fillers import sampled
from app.findings.finding import Finding, report
from app.findings.view import View
from app.formatting import plural


def check(view: View) -> dict[str, Any] | None:
    view = sampled(view)
    if not view.uses_groups or view.groups < 2:
        return None
    sizes = view.sizes
    kinds, counts = np.unique(sizes, return_counts=True)
    if kinds.size == 1:
        return None
    usual = int(kinds[::-1][np.argmax(counts[::-1])])  # the larger of two that are equally frequent
    other = np.flatnonzero(sizes != usual)
    first = int(other[0])
    return report(
        view,
        "warning" if (sizes[other] < usual).any() else "info",
        f"{other.size} of {plural(view.groups, 'group')} {'does' if other.size == 1 else 'do'} not have the "
        f"usual {plural(usual, 'rollout')} (sizes {int(kinds[0])} to {int(kinds[-1])}; group "
        f"{view.group_ids[first]!r} has {int(sizes[first])}).",
        explanation="A trainer that cuts the batch into runs of equal size compares rollouts of different "
        "prompts from the first odd group on, or leaves the rest without a baseline. One that groups by id "
        "is not hurt, but std and leave-one-out baselines of small groups are noisier, and every group "
        "weighs differently.",
        remedy="Find out why rollouts are missing (failed, filtered or still running samples, a cut-off "
        "file); group by id, not by position.",
        evidence={
            "usual_size": usual,
            "groups_of_other_size": other.size,
            "groups": view.groups,
            "groups_by_size": {int(size): int(count) for size, count in zip(kinds, counts, strict=True)},
        },
        groups=other,
        rollouts=np.flatnonzero(np.isin(view.group, other)),
    )


FINDING = Finding("unequal_group_sizes", "Groups of different sizes", check)
