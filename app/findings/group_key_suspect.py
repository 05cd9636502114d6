"""Group ids and prompt texts do not say the same about which rollouts belong together.

* Different prompts under one id: either the id is too coarse (rollouts of different tasks are compared), or
  the prompts differ in something that does not matter, such as a path, a time or a seed; a trainer that
  groups by prompt text then finds single rollouts only. Where they differ in nothing but times, dates, seeds
  and generated ids, the ids are right, and it is only a note (info). Prompts that continue one another are
  turns and not named, nor are later segments of a rollout.
* Equal prompts under different ids: named where merging them would give a sibling to groups of one rollout
  (an id per row instead of one per prompt), or where recorded advantages show that it was done. Two ids that
  happen to ask the same are not named by themselves: a data set may hold a prompt twice. Texts with an image
  or a video in them are never equal, as the text is not all of the prompt.
* critical: recorded advantages sum to 0 over equal prompt texts and not over the ids
  (`app.findings.partitions`), or every group with a twin is a single rollout; info where the prompts of an id
  differ only in a stamp; warning otherwise.

Seen as: siblings that are all singletons and learn from raw rewards; groups twice as large as they should be
(NeMo-RL#3882, NeMo-RL#4013, Search-R1#39, rllm#605, rllm#776, rllm#924).

Remedy: give each prompt an id of its own where it is sampled, hand it through to the trainer, and group by
it.

Evidence: `groups_with_different_prompts`, `groups_with_stamped_prompts`, `groups_with_a_twin`, `groups`,
`most_prompts_in_a_group`, `prompts`, `singletons_with_a_twin`, `recorded` ("prompt" | "group_id" |
"unknown"), `differ_at` (characters from–to, from 0, in the group that is named).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.partitions import Verdict, judge
from app.findings.prompts import difference
from app.findings.view import Bools, Ints, View
from app.formatting import plural


def check(view: View) -> dict[str, Any] | None:
    number = view.prompts.number
    if not view.grouped or view.groups < 1 or (number < 0).all():
        return None
    segment = view.columns.segment
    later = segment > 0 if segment.size == view.rollouts else np.zeros(view.rollouts, dtype=bool)
    different = view.prompts.other & ~view.prompts.grows & ~later
    mixed = np.unique(view.group[different & ~view.prompts.stamped])
    stamped = np.setdiff1d(np.unique(view.group[different]), mixed)
    counted = (number >= 0) & ~view.prompts.grows & ~later
    twins = _twins(view, number, counted)
    alone = twins & (view.sizes == 1)
    unlike = bool(mixed.size or stamped.size)
    verdict = judge(view, np.where(counted, number, -1)) if unlike or twins.any() else None
    by_prompt = verdict is not None and verdict.baseline == "piece"
    if by_prompt:
        mixed = np.union1d(mixed, stamped)
    if not mixed.size and not alone.any() and not (by_prompt and twins.any()):
        return _stamped(view, stamped) if stamped.size else None
    return _report(view, mixed, stamped, twins, alone, verdict)


def _twins(view: View, number: Ints, counted: Bools) -> Bools:
    """`[G]` a prompt of the group is another group's too."""
    pairs = np.unique(np.stack([number, view.group], axis=1)[counted], axis=0)
    groups_of = np.bincount(pairs[:, 0], minlength=1)
    found = np.zeros(view.groups, dtype=bool)
    found[pairs[groups_of[pairs[:, 0]] > 1, 1]] = True
    return found


def _stamped(view: View, stamped: Ints) -> dict[str, Any]:
    """A note on prompts that differ only in a time, a seed or a generated id, under one id each."""
    first = view.group_ids[int(stamped[0])]
    return report(
        view,
        "info",
        f"{stamped.size} of {plural(view.groups, 'group')} {'has' if stamped.size == 1 else 'have'} prompts "
        f"that differ only in a time, a seed or a generated id (group {first!r}). The ids keep them in one.",
        explanation="A trainer that groups by id compares the right rollouts. One that groups by the text of "
        "the prompt, or by a hash of it, would find single rollouts only.",
        remedy="Nothing, as long as the trainer groups by the id; else take the stamp out of the prompt.",
        evidence=_evidence(view, np.empty(0, dtype=np.int64), stamped, np.zeros(view.groups, bool), None),
        groups=stamped,
        rollouts=np.flatnonzero(np.isin(view.group, stamped)),
    )


def _report(
    view: View, mixed: Ints, stamped: Ints, twins: Bools, alone: Bools, verdict: Verdict | None
) -> dict[str, Any]:
    by_prompt = verdict is not None and verdict.baseline == "piece"
    shared = np.flatnonzero(twins)
    titles = []
    if mixed.size:
        first = view.group_ids[int(mixed[0])]
        titles.append(
            f"{mixed.size} of {plural(view.groups, 'group')} {'has' if mixed.size == 1 else 'have'} "
            f"different prompts under one id (group {first!r}: {_prompts(view, mixed[:1])} prompts, "
            f"{plural(int(view.sizes[mixed[0]]), 'rollout')})"
        )
    if shared.size and (alone.any() or by_prompt or mixed.size):
        titles.append(f"{plural(shared.size, 'group')} with different ids have the prompt of another one")
    if by_prompt:
        titles.append("the recorded advantages were grouped by prompt text")
    critical = by_prompt or (alone.any() and bool((alone == twins).all()) and 2 * alone.sum() >= view.groups)
    found = np.union1d(mixed, shared)
    return report(
        view,
        "critical" if critical else "warning",
        "; ".join(titles) + ".",
        explanation="Who is compared with whom decides every advantage of a group baseline. Ids that are too "
        "coarse compare answers to different tasks; ids (or texts) that are too fine leave rollouts "
        "without siblings, which then get 0 or their raw reward.",
        remedy="Give each prompt one id where it is sampled and group by that id, not by the text, the row "
        "or a hash of either.",
        evidence=_evidence(view, mixed, stamped, twins, verdict),
        groups=found,
        rollouts=np.flatnonzero(np.isin(view.group, found)),
    )


def _evidence(
    view: View, mixed: Ints, stamped: Ints, twins: Bools, verdict: Verdict | None
) -> dict[str, Any]:
    judged = "unknown" if verdict is None or verdict.baseline is None else verdict.baseline
    return {
        "groups_with_different_prompts": mixed.size,
        "groups_with_stamped_prompts": stamped.size,
        "groups_with_a_twin": int(twins.sum()),
        "groups": view.groups,
        "most_prompts_in_a_group": _prompts(view, np.union1d(mixed, stamped)[:200]),
        "prompts": int(np.unique(view.prompts.number[view.prompts.number >= 0]).size),
        "singletons_with_a_twin": int((twins & (view.sizes == 1)).sum()),
        "recorded": {"piece": "prompt", "group": "group_id"}.get(judged, "unknown"),
        "differ_at": _where(view),
    }


def _prompts(view: View, groups: Ints) -> int:
    """The most prompts that one of the groups has."""
    counts = [np.unique(view.prompts.number[view.group == g]).size for g in groups.tolist()]
    return max(counts, default=1)


def _where(view: View) -> list[int] | None:
    return None if view.prompts.example is None else list(difference(view.prompts.example[1]))


FINDING = Finding("group_key_suspect", "Group ids and prompts disagree", check)
