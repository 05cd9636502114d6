"""Advantages whose size is decided by the ε in a denominator, or by rounding, not by the rewards.

* Divided by ε alone: |A| is above 100 and equals |reward| ÷ ε or |reward − group mean| ÷ ε (to 0.1 %) for
  one ε in use (1e-4 … 1e-12): the rollout's std was taken as 0. critical. A hundred is out of reach for a
  z-score of fewer than ten thousand rollouts.
* Rounding made into a signal: a group's rewards are equal, its recorded advantages are not 0, and they are
  what float32 leaves of `reward − mean`, divided by an ε. Said only where other groups show that the group
  was the baseline, or where the float32 formula gives the same numbers to 1 %. critical from |A| = 0.1,
  else info.
* A small spread: the group's std (ddof 1) is below 1e-3 ÷ 1.5, so that the common denominators (std + 1e-6,
  std + 1e-4, and verl's vectorised floor of 1e-6 under the root, that is 1e-3) disagree by more than a
  factor of 1.5. Not said where all rewards of the batch are that small, as then no group is out of line.
  info: the finding `near_zero_variance_groups` says what it does to training.

Seen as: losses of 1e5 on the last, short batch, advantages of about a million, a constant group that trains
(AReaL#1673, AReaL#1419, verl#6348, verl#4598, NeMo-RL#4161, atropos#457).

Remedy: no slice of rows without its own group; advantage 0 where a group's std is below a limit (1e-3 of
the reward scale); an exact test for equal rewards before dividing, and float64 or an ε of 1e-4 where that
leaves at most a tenth.

Evidence: `kind`; `epsilon`, `divided` (`reward` or `reward − group mean`), `rollouts`, `largest`; for a
small spread `std_ddof1`, `advantages` by denominator and their `ratio`; for rounding `tried` (by remedy:
`helps`, and the `largest` then).
"""

from typing import Any

import numpy as np

from app.findings import recorded, remedies
from app.findings.finding import Finding, report
from app.findings.remedies import Tried
from app.findings.settings import baseline_of
from app.findings.view import Bools, Floats, GroupStatistics, Ints, View, group_statistics
from app.formatting import number, plural

EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
HUGE, CLOSE, ROUGH = 100.0, 1e-3, 1e-2
NOTICED = 0.1
NOTHING = 1e-9  # Σ|A| that float64 leaves
FLOOR, FACTOR = 1e-3, 1.5
SCALE = 0.02  # a batch whose median std is below this has small rewards throughout
SHOWN = 20
#: An ε that is in use and larger than what rounding leaves of usual rewards, and the smallest usual one.
LARGER, SMALLEST = 1e-4, 1e-8


def check(view: View) -> list[dict[str, Any]] | None:
    if not view.grouped:
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    said = [_divided(view, groups), _rounding(view, groups), _small(view, groups)]
    found = [each for each in said if each is not None]
    return found[:1] or None


def _divided(view: View, groups: GroupStatistics) -> dict[str, Any] | None:
    huge = recorded.counted(view) & (np.abs(np.nan_to_num(view.advantage)) > HUGE)
    if not huge.any():
        return None
    places = np.flatnonzero(huge)
    ways = {
        "reward": view.reward[places],
        "reward − group mean": (view.reward - groups.mean[view.group])[places],
    }
    for what, numerator in ways.items():
        for eps in EPSILONS:
            close = np.abs(view.advantage[places] * eps - numerator) <= CLOSE * np.abs(numerator)
            rows = places[close & (numerator != 0)]
            if rows.size:
                return _divided_report(view, rows, what, eps)
    return None


def _divided_report(view: View, rows: Ints, what: str, eps: float) -> dict[str, Any]:
    largest = float(np.abs(view.advantage[rows]).max())
    equal = "equals" if rows.size == 1 else "equal"
    return report(
        view,
        "critical",
        f"The recorded {'advantage' if rows.size == 1 else 'advantages'} of {plural(rows.size, 'rollout')}, "
        f"up to {number(largest)}, {equal} {what} ÷ {eps:g}: only the ε was in the denominator.",
        explanation="Their std was taken as 0: rows outside every group slice (a short last group, a group "
        "of one) keep mean = std = 0. One such rollout outweighs the rest of the batch.",
        remedy="Group by id instead of by position, or drop what does not fill a group; set the advantage to "
        "0 where the std is 0.",
        evidence={
            "kind": "divided by epsilon",
            "epsilon": eps,
            "divided": what,
            "rollouts": rows.size,
            "largest": largest,
            "rewards": view.reward[rows[:SHOWN]],
            "recorded": view.advantage[rows[:SHOWN]],
        },
        groups=np.unique(view.group[rows]),
        rollouts=rows,
    )


def _rounding(view: View, groups: GroupStatistics) -> dict[str, Any] | None:
    if baseline_of(view) in ("batch", "apart"):
        return None
    _, size = recorded.sums(view)
    suspects = np.flatnonzero(groups.constant & (size > NOTHING))
    centred = recorded.centred_on_groups(view, groups)
    rows = recorded.counted(view)
    found = [
        g
        for g in suspects.tolist()
        if _left_by_float32(view, np.flatnonzero(rows & (view.group == g)), centred)
    ]
    if not found:
        return None
    largest = float(np.abs(view.advantage[rows & np.isin(view.group, found)]).max())
    tried = _tried([view.reward[rows & (view.group == g)] for g in found], largest)
    return report(
        view,
        "critical" if largest >= NOTICED else "info",
        f"{plural(len(found), 'group')} with equal rewards {'has' if len(found) == 1 else 'have'} recorded "
        f"advantages of up to {number(largest)}: the rounding of the mean in float32, divided by an ε.",
        explanation="Equal rewards have a float32 mean that is one unit in the last place beside them. That "
        "difference divided by next to nothing pushes all of the group the same way, whatever it answered; "
        "a filter for std = 0 does not see it.",
        remedy=remedies.advice(tried, "", "Test for equal rewards (max = min) before dividing: 0 is left."),
        evidence={
            "kind": "rounding",
            "groups": len(found),
            "largest": largest,
            "reward": {view.group_ids[g]: groups.mean[g] for g in found[:SHOWN]},
            "recorded": {
                view.group_ids[g]: view.advantage[rows & (view.group == g)][0] for g in found[:SHOWN]
            },
            "tried": remedies.numbers_of(tried),
        },
        groups=found,
        rollouts=np.flatnonzero(rows & np.isin(view.group, found)),
    )


def _tried(members: list[Floats], largest: float) -> list[Tried]:
    """What other arithmetic leaves of groups of equal rewards, each summed one after the other."""
    ways = (
        ("float64", "Compute the group statistics in float64", np.float64, SMALLEST),
        ("larger_eps", f"Use an ε of {LARGER:g}", np.float32, LARGER),
    )
    tried = []
    for name, what, kind, eps in ways:
        own = [rewards.astype(kind) for rewards in members]
        left = [abs(float(each[0] - np.cumsum(each)[-1] / kind(each.size))) for each in own]
        then = max(gap / (gap + eps) for gap in left)
        sentence = f"{what}: at most {number(then)} is left (now {number(largest)})."
        tried.append(Tried(name, then <= largest / 10, sentence, {"largest": then}))
    return tried


def _left_by_float32(view: View, places: Ints, centred: bool) -> bool:
    """The recorded advantages of a group with equal rewards are what float32 leaves."""
    given = view.advantage[places]
    if not np.abs(given).max() > 0 or np.ptp(given) > ROUGH * np.abs(given).max():
        return False  # different numbers for equal rewards: another grouping, not rounding
    low = view.reward[places].astype(np.float32)
    # Frameworks sum in different orders: one after the other, pairwise, or by blocks.
    means = (low.mean(), np.float32(np.cumsum(low, dtype=np.float32)[-1]) / np.float32(low.size))
    for mean in means:
        left = float(low[0] - mean)
        spread = abs(left)
        for eps in EPSILONS:
            for std in (0.0, spread, spread * (low.size / max(low.size - 1, 1)) ** 0.5):
                expected = left / (std + eps)
                if expected and abs(given[0] - expected) <= ROUGH * abs(expected):
                    return True
    return centred and bool(np.abs(given).max() < 1)


def _small(view: View, groups: GroupStatistics) -> dict[str, Any] | None:
    with np.errstate(invalid="ignore"):
        small: Bools = groups.differing & (groups.std < FLOOR / FACTOR)
    others = groups.std[groups.differing & ~small]
    if not small.any() or not others.size or np.median(others) < SCALE:
        return None
    found = np.flatnonzero(small)
    first = int(found[np.argmin(groups.std[found])])
    ways = _by_denominator(groups, first)
    ratio = max(ways.values()) / min(ways.values())
    return report(
        view,
        "info",
        f"In {plural(found.size, 'group')} the ε decides how large advantages are: the largest of group "
        f"{view.group_ids[first]!r} (std {number(float(groups.std[first]))}, ddof 1) is between "
        f"{number(min(ways.values()))} and {number(max(ways.values()))}, a factor of {number(ratio)}, "
        "depending on the framework.",
        explanation="Where the spread of a group is no larger than the constant beside it in the "
        "denominator, that constant is the scale: one framework gives next to nothing, another full-size "
        "advantages.",
        remedy="Set a limit below which a group's advantages are 0, or do not divide by the std.",
        evidence={
            "kind": "small spread",
            "groups": found.size,
            "std_ddof1": dict(
                zip([view.group_ids[g] for g in found[:SHOWN]], groups.std[found[:SHOWN]], strict=True)
            ),
            "advantages": ways,
            "ratio": ratio,
        },
        groups=found,
        rollouts=np.flatnonzero(np.isin(view.group, found)),
    )


def _by_denominator(groups: GroupStatistics, group: int) -> dict[str, float]:
    """Denominator -> the group's largest advantage under it."""
    std = float(groups.std[group])
    top = float(max(groups.high[group] - groups.mean[group], groups.mean[group] - groups.low[group]))
    return {
        "std + 1e-6": top / (std + 1e-6),
        "std + 1e-4": top / (std + 1e-4),
        "√max(variance, 1e-6) + 1e-6": top / (max(std, FLOOR) + 1e-6),
    }


FINDING = Finding("epsilon_dominated", "Advantages made by an ε or by rounding", check)
