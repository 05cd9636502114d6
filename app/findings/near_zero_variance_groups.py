"""Groups whose rewards differ by next to nothing, which dividing by their std scales to full size.

A group is named when its spread is out of line with the batch, not merely small by chance:

* its std (ddof 1) and its range are both below 0.2 × the median of the groups with differing rewards (of
  its own data source where that has three such groups, as tasks may have scales of their own), and either
  the batch's rewards take few values, each again and again (then nothing lies between "differs" and
  "noise"), or a sample of this size from a normal distribution with the median's std would be this tight
  with a probability below 3e-4 over all groups; or
* its range is below 5e-5 of its own rewards' size, whatever the others do.

Seen as: solved or hopeless prompts that still train, format or length bonuses that grow, two versions of
one estimator that differ 34-fold (verl#6348, OpenRLHF#1272, trl#6365, verl#4598).

Remedy: what lowers the share of these groups in all |advantage| on this batch, of three that are tried: an
estimator that does not divide by the std, a floor for the std at a fifth of the median, and, where reward
components are recorded, a filter on the one that judges the answer.

Evidence: `near_zero_groups`, `compared_groups`, `median_std_ddof1`, by group `std_ddof1` and `range`,
`largest_possible_advantage`, `share_of_all` (of z-scores), `tried` (by remedy: `helps` and the `share` then,
or how many of these groups the filter `drops`).
"""

import math
from typing import Any

import numpy as np
import torch

from app.findings import components, remedies
from app.findings.fillers import sampled
from app.findings.finding import Finding, report
from app.findings.remedies import Tried
from app.findings.view import Bools, Floats, GroupStatistics, Ints, View, group_statistics
from app.formatting import number, percent, plural

RATIO = 0.2
FEW_VALUES = 12
CHANCE = 3e-4
RELATIVE = 5e-5


def near_zero(view: View, groups: GroupStatistics) -> Bools:
    """`[G]` the group's rewards differ, but by next to nothing."""
    differing = groups.differing
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(groups.low), np.abs(groups.high))
        tiny = differing & (groups.range < RELATIVE * size)
    if differing.sum() < 2:
        return tiny
    std, span = _references(view, groups)
    with np.errstate(invalid="ignore"):
        small = differing & (groups.std < RATIO * std) & (groups.range < RATIO * span)
    scored = view.reward[view.scored]
    if np.unique(scored).size > min(FEW_VALUES, scored.size / 2):
        small &= _chance(groups, std) < CHANCE / differing.sum()
    return small | tiny


def _references(view: View, groups: GroupStatistics) -> tuple[Floats, Floats]:
    """`[G]` median std and range of the groups that each group is held against."""
    differing = groups.differing
    source = np.full(view.groups, -1, dtype=np.int64)
    source[view.group] = view.source
    std = np.full(view.groups, np.median(groups.std[differing]))
    span = np.full(view.groups, np.median(groups.range[differing]))
    for number_of_source in np.unique(source):
        own = source == number_of_source
        if (own & differing).sum() >= 3:
            std[own] = np.median(groups.std[own & differing])
            span[own] = np.median(groups.range[own & differing])
    return std, span


def _chance(groups: GroupStatistics, reference: Floats) -> Floats:
    """`[G]` probability that n normal values of the reference std have at most this std (χ², n − 1)."""
    freedom = np.maximum(groups.scored - 1, 1).astype(float)
    statistic = np.nan_to_num(freedom * (groups.std / reference) ** 2, nan=np.inf)
    lower = torch.special.gammainc(torch.from_numpy(freedom / 2), torch.from_numpy(statistic / 2))
    return np.asarray(lower.numpy(), dtype=np.float64)


def check(view: View) -> dict[str, Any] | None:
    view = sampled(view)
    if not view.grouped:
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    found = np.flatnonzero(near_zero(view, groups))
    if found.size == 0:
        return None
    compared = int((groups.scored >= 2).sum())
    median = float(np.median(groups.std[groups.differing]))
    largest = int(found[np.argmax(groups.std[found])])
    count = int(groups.scored[largest])
    bound = (count - 1) / math.sqrt(count)
    share, tried = _tried(view, groups, found, median)
    return report(
        view,
        "warning" if found.size / compared >= 0.1 or found.size > 2 else "info",
        f"{found.size} of {plural(compared, 'group')} {'differs' if found.size == 1 else 'differ'} by next "
        f"to nothing (std up to {number(float(groups.std[largest]))}, median of the differing groups "
        f"{number(median)}; ddof 1), and std scaling makes full-size advantages of it.",
        explanation=f"Dividing by the group's own std turns this spread into advantages of up to "
        f"{number(bound)} for n = {count}, as strong as a right answer among wrong ones. What differs is "
        "often a format or length bonus, or rounding, so the step learns noise. A filter for std = 0 does "
        "not catch these groups.",
        remedy=remedies.advice(
            tried, "Look at what differs in these groups, and leave it out of the reward."
        ),
        evidence={
            "near_zero_groups": found.size,
            "compared_groups": compared,
            "median_std_ddof1": median,
            "std_ddof1": dict(
                zip([view.group_ids[g] for g in found[:20]], groups.std[found[:20]], strict=True)
            ),
            "range": dict(
                zip([view.group_ids[g] for g in found[:20]], groups.range[found[:20]], strict=True)
            ),
            "largest_possible_advantage": bound,
            "share_of_all": share,
            "tried": remedies.numbers_of(tried),
        },
        groups=found,
        rollouts=np.flatnonzero(np.isin(view.group, found)),
    )


def _tried(view: View, groups: GroupStatistics, found: Ints, median: float) -> tuple[float, list[Tried]]:
    """The share of these groups in all |advantage|, as z-scores and under what is tried."""
    rows = view.scored & groups.differing[view.group]
    group = view.group[rows]
    centred, std, inside = view.reward[rows] - groups.mean[group], groups.std[group], np.isin(group, found)
    share, floor = remedies.share_in(centred / std, inside), RATIO * median
    ways = (
        ("no_std", "Do not divide by the std (Dr. GRPO)", remedies.share_in(centred, inside)),
        ("std_floor", f"Use a std of at least {number(floor)}, a fifth of the median",
         remedies.share_in(centred / np.maximum(std, floor), inside)),
    )  # fmt: skip
    tried = [
        Tried(
            name,
            then <= share / 2,
            f"{what}: these groups would carry {percent(then)} of all |advantage| (now {percent(share)}).",
            {"share": then},
        )
        for name, what, then in ways
    ]
    return share, [*_filter(view, found), *tried]


def _filter(view: View, found: Ints) -> list[Tried]:
    """Dropping groups in which the component that judges the answer does not differ."""
    parts = components.read(view)
    if parts is None or not parts.named:
        return []
    moved = components.varies(parts.centred, parts.group, view.groups)[:, parts.main]
    drops, left, name = int((~moved[found]).sum()), int(moved.sum()), parts.names[parts.main]
    sentence = (
        f"Filter groups by {name} instead of the total: it would drop {drops} of these "
        f"{plural(found.size, 'group')} and leave {plural(left, 'group')} of the batch."
    )
    helps = 2 * drops >= found.size and left > 0
    return [Tried("filter", helps, sentence, {"drops": drops, "groups_left": left})]


FINDING = Finding("near_zero_variance_groups", "Groups whose rewards differ by next to nothing", check)
