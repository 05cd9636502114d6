"""The rows of a prompt group do not follow each other, and the trainer may have grouped by position.

A trainer that cuts the batch into runs of N rows needs the rollouts of a prompt side by side. Rows that come
as p1, p2, p1, p2, … are then compared with other prompts' rollouts: an easy prompt's failures get a
positive, a hard prompt's successes a negative advantage, without any error.

* critical: the recorded advantages sum to 0 in runs of N rows (N: the header's `group_size`, else the usual
  size of a group) and not in the groups, see `app.findings.partitions`: it did happen.
* info: rows come in turns, every group's at one and the same distance, and no recorded advantage says how
  they were grouped. Rows that are merely out of order (written as they were finished) are not named, as
  nobody cuts those into runs.
* Nothing is said where recorded advantages sum to 0 in the groups.

Seen as: prompts that nobody solved get non-zero advantages; training that does not learn after a change of
the sampler's order (prime-rl#600, R1-V#67, tunix#820).

Remedy: group by id, or sort the rows by prompt before the batch is cut.

Evidence: `stride`, `interleaved_groups`, `groups`, `recorded` ("stride" | "unknown"), `sum_of_advantages` by
group, `runs_that_tell`, `runs_that_sum_to_zero`, `constant_groups_with_advantages`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.partitions import Verdict, group_sums, judge
from app.findings.view import Bools, Ints, View
from app.formatting import plural, signed

SHOWN = 8


def check(view: View) -> dict[str, Any] | None:
    if not view.grouped or view.groups < 2 or view.rollouts < 4:
        return None
    order = np.argsort(view.index, kind="stable")
    apart = _apart(view, order)
    if not apart.any():
        return None
    stride = _stride(view)
    position = np.empty(view.rollouts, dtype=np.int64)
    position[order] = np.arange(view.rollouts)
    run = position // stride
    whole = run < view.rollouts // stride  # a shorter rest is in no run
    verdict = judge(view, np.where(whole, run, -1))
    if verdict.baseline == "piece" and stride > 1:
        return _report(view, apart, stride, verdict)
    if verdict.baseline is None and not np.isfinite(view.advantage).any() and _in_turns(view, position):
        return _report(view, apart, stride, verdict)
    return None


def _apart(view: View, order: Ints) -> Bools:
    """`[G]` the group's rows do not follow each other in the file."""
    group = view.group[order]
    starts = np.concatenate([[True], group[1:] != group[:-1]])
    return np.bincount(group[starts], minlength=view.groups) > 1


def _stride(view: View) -> int:
    said = view.header.get("group_size")
    if isinstance(said, int) and not isinstance(said, bool) and said > 1:
        return said
    kinds, counts = np.unique(view.sizes, return_counts=True)
    return int(kinds[::-1][np.argmax(counts[::-1])])


def _in_turns(view: View, position: Ints) -> bool:
    """Every group's rows stand at one distance, which is the same for all groups, and above 1."""
    order = np.lexsort((position, view.group))
    same = view.group[order][1:] == view.group[order][:-1]
    gaps = np.diff(position[order])[same]
    return bool(gaps.size and gaps[0] > 1 and (gaps == gaps[0]).all() and (view.sizes > 1).all())


def _report(view: View, apart: Bools, stride: int, verdict: Verdict) -> dict[str, Any]:
    found = np.flatnonzero(apart)
    proven = verdict.baseline == "piece"
    sums = group_sums(view)
    worst = int(found[np.argmax(np.abs(sums[found]))])
    title = (
        f"The rows of {plural(found.size, 'group')} (of {view.groups}) do not follow each other in the file"
    )
    title += (
        f", and the recorded advantages are those of runs of {stride} rows: they sum to 0 in the runs, but "
        f"to {signed(float(sums[worst]), 4)} in group {view.group_ids[worst]!r}."
        if proven
        else f": they come in turns. Cut into runs of {stride}, every run would mix prompts."
    )
    constant = np.flatnonzero(verdict.constant & apart)
    return report(
        view,
        "critical" if proven else "info",
        title,
        explanation="Rollouts are compared with those of other prompts: the difficulty of the prompt decides "
        "the sign instead of the answer. "
        + (
            f"{plural(constant.size, 'group')} with equal rewards got advantages other than 0, which no "
            "baseline within a group can give."
            if proven and constant.size
            else "An estimator that groups by id is not hurt."
        ),
        remedy="Group by id, or sort the rows by prompt before the batch is cut into runs; check that every "
        "run has one id.",
        evidence={
            "stride": stride,
            "interleaved_groups": found.size,
            "groups": view.groups,
            "recorded": "stride" if proven else "unknown",
            "sum_of_advantages": {view.group_ids[g]: float(sums[g]) for g in found[:SHOWN].tolist()}
            if proven
            else None,
            "runs_that_tell": verdict.telling,
            "runs_that_sum_to_zero": verdict.balanced,
            "constant_groups_with_advantages": constant.size,
        },
        groups=found,
        rollouts=np.flatnonzero(apart[view.group]),
    )


FINDING = Finding("interleaved_groups", "Rows of a group do not follow each other", check)
