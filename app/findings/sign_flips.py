"""Rollouts that are better than their siblings and pushed down all the same, or the other way round.

Two readings, the stronger first:

* Recorded: advantages are recorded, one number for each rollout (or the same on every token), and for at
  least one rollout in ten their sign is the opposite of reward − group mean. Something other than the group
  was the baseline, and neither the header nor the numbers speak for an estimator that has none, or one of
  its own (a critic, a running mean). critical; info where they rise with the rewards of the whole batch as a
  straight line does, unless nine groups in ten lie on one side of the batch mean and two rollouts in five
  would flip: then the batch is the baseline, as in an estimator that has no groups. info, too, where the
  numbers are those of an estimator whose baseline is not the plain mean of the group.
* Would be: no advantage is recorded that could tell, and centring on the batch gives at least `chance +
  0.15 + 0.8/√B` (at most a half) of the rollouts another sign than centring on the group, and two groups in
  five lie wholly on one side of the batch mean. `chance = arccos(√(1 − 1/n))/π` is what equally hard
  prompts in groups of n give (11 % for n = 8, 25 % for n = 2); the rest keeps small batches and prompts of
  ordinary difficulty quiet. warning where the header names an estimator that whitens over the batch without
  groups: then this is what it teaches. Otherwise it is only a "what if" about prompts of different
  difficulty, which every mixed data set has: info.

Seen as: right answers with negative advantages in a batch of easy prompts, a run that unlearns what it can
do (verl#7278, OpenRLHF#856, stable-baselines#638, miles#3229).

Remedy: what leaves at most half of the changes on this batch, of two that are tried: centre on the group
before any whitening over the batch, whiten per task; the whitening page shows the scopes.

Evidence: `recorded`, `flipped`, `compared`, `share`; recorded: `winners_suppressed`, `losers_reinforced`;
would be: `share_by_chance`, `threshold`, `one_sided_share`, `batch_mean`, `groups_all_below_batch_mean`,
`groups_all_above_batch_mean`, `tried` (by remedy: `helps`, how many are `flipped` then).
"""

import math
from typing import Any

import numpy as np

from app.findings import recorded, remedies
from app.findings.finding import Finding, Severity, report
from app.findings.remedies import Tried
from app.findings.settings import RECONCILED, baseline_named, baseline_of
from app.findings.view import Bools, Floats, GroupStatistics, View, group_statistics
from app.formatting import percent, plural
from estimators import CONVENTIONS

RECORDED_SHARE = 0.1
MARGIN, SMALL = 0.15, 0.8
ONE_SIDED = 0.4
FAR_SIDED, FAR_SHARE = 0.9, 0.4
LEAST = 8
#: Estimators that weigh the mean by length, divide by it, or standardise each component by itself.
OWN_BASELINE = ("opo", "maxrl", "gdpo")


def check(view: View) -> dict[str, Any] | None:
    if not view.uses_groups:
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    compared = view.scored & groups.differing[view.group]
    if compared.sum() < LEAST:
        return None
    centred = np.where(compared, view.reward - groups.mean[view.group], np.nan)
    would_be = _would_be(view, groups, centred)
    if not recorded.counted(view).any() or baseline_named(view) == "batch" or baseline_of(view) == "apart":
        return would_be
    meant = (_of_the_batch(view) and not _far_apart(would_be)) or _by_formula(view)
    return _recorded(view, centred, "info" if meant else "critical")


def _by_formula(view: View) -> bool:
    """The recorded advantages are those of an estimator whose baseline is not the plain mean of the group."""
    found = view.facts.get(RECONCILED) or {}
    matched = [each for each in found.get("candidates", ()) if each["matched"] and each["mistake"] is None]
    return bool(matched) and CONVENTIONS[matched[0]["convention"]].estimator in OWN_BASELINE


def _far_apart(would_be: dict[str, Any] | None) -> bool:
    """Nine groups in ten lie on one side of the batch mean, and two rollouts in five would flip."""
    if would_be is None:
        return False
    evidence = would_be["evidence"]
    return bool(evidence["one_sided_share"] >= FAR_SIDED and evidence["share"] >= FAR_SHARE)


def _of_the_batch(view: View) -> bool:
    """The recorded advantages are a rising straight line of the rewards, the same for every group."""
    both = recorded.one_per_rollout(view) & view.scored & (view.valid != 0)
    reward, advantage = view.reward[both], view.advantage[both]
    if reward.size < LEAST or reward.std() == 0 or advantage.std() == 0:
        return False
    return bool(np.corrcoef(reward, advantage)[0, 1] > 1 - 1e-6)


def _recorded(view: View, centred: Floats, severity: Severity) -> dict[str, Any] | None:
    given = recorded.one_per_rollout(view)
    both = given & np.isfinite(centred) & (view.valid != 0)
    if not both.any():
        return None
    flipped = np.flatnonzero(both & _opposite(view.advantage, centred))
    share = flipped.size / int(both.sum())
    if flipped.size < 2 or share < RECORDED_SHARE:
        return None
    return report(
        view,
        severity,
        f"{flipped.size} of {plural(int(both.sum()), 'rollout')} ({percent(share)}) have a recorded "
        "advantage of the opposite sign to their reward minus the group's mean.",
        explanation="Responses that beat their siblings are suppressed, or worse ones reinforced. The "
        "recorded advantages were not centred on these groups: whitening over the batch or a rank, another "
        "grouping of the rows, or another reward.",
        remedy="Compare with the whitening scopes; check how the trainer grouped the rows and whether it "
        "whitens after the group step.",
        evidence={
            "recorded": True,
            "flipped": flipped.size,
            "compared": int(both.sum()),
            "share": share,
            "winners_suppressed": int((centred[flipped] > 0).sum()),
            "losers_reinforced": int((centred[flipped] < 0).sum()),
        },
        groups=np.unique(view.group[flipped]),
        rollouts=flipped,
    )


def _would_be(view: View, groups: GroupStatistics, centred: Floats) -> dict[str, Any] | None:
    compared = np.isfinite(centred)
    total = int(compared.sum())
    if not total:  # every difference overflows
        return None
    overall = float(view.reward[view.scored].mean())
    flipped = np.flatnonzero(compared & _opposite(view.reward - overall, centred))
    n = float(np.median(groups.scored[groups.differing]))
    chance = math.acos(math.sqrt(1 - 1 / n)) / math.pi
    threshold = min(chance + MARGIN + SMALL / math.sqrt(total), 0.5)
    share = flipped.size / total
    below = groups.differing & (groups.high < overall)
    above = groups.differing & (groups.low > overall)
    one_sided = int((below | above).sum()) / int(groups.differing.sum())
    # Of a pair exactly one can flip: half of all is the most there is, and few pairs reach it by chance.
    if share < threshold or one_sided < ONE_SIDED or (n < 3 and total < 32):
        return None
    tried = _tried(view, centred, flipped.size)
    return report(
        view,
        "warning" if baseline_named(view) == "batch" else "info",
        f"{flipped.size} of {plural(total, 'rollout')} ({percent(share)}) would change sign if advantages "
        "were whitened over the batch instead of within each group.",
        explanation=f"Prompts differ more than their responses do: in {plural(int(below.sum()), 'group')} "
        f"even the best response is below the batch mean and would be suppressed, in {int(above.sum())} even "
        f"the worst is above it and would be reinforced. Equally hard prompts give about {percent(chance)} "
        f"for groups of {n:g}.",
        remedy=remedies.advice(tried, "", "The whitening page shows every scope."),
        evidence={
            "recorded": False,
            "flipped": flipped.size,
            "compared": total,
            "share": share,
            "share_by_chance": chance,
            "threshold": threshold,
            "groups_all_below_batch_mean": int(below.sum()),
            "groups_all_above_batch_mean": int(above.sum()),
            "one_sided_share": one_sided,
            "batch_mean": overall,
            "tried": remedies.numbers_of(tried),
        },
        groups=np.unique(view.group[flipped]),
        rollouts=flipped,
    )


def _tried(view: View, centred: Floats, flipped: int) -> list[Tried]:
    """How many would change sign if the group's mean were taken off before the batch's, or each task's mean
    instead of the batch's."""
    rows = np.isfinite(centred)
    first = np.where(rows, centred - centred[rows].mean(), np.nan)
    ways = [("centre_on_group", "Centre on the group before any whitening over the batch", first)]
    if len(view.sources) > 1 and (view.source[view.scored] >= 0).all():
        source = np.maximum(view.source, 0)
        tasks = group_statistics(view.reward, source, len(view.sources))
        ways.append(("whiten_per_task", "Whiten per task", view.reward - tasks.mean[source]))
    tried = []
    for name, what, values in ways:
        count, total = int((rows & _opposite(values, centred)).sum()), int(rows.sum())
        sentence = f"{what}: {count} of {plural(total, 'rollout')} would change sign instead of {flipped}."
        tried.append(Tried(name, 2 * count <= flipped, sentence, {"flipped": count}))
    return tried


def _opposite(one: Floats, other: Floats) -> Bools:
    """`[B]` one is positive and the other negative; within rounding of 0 counts as neither."""
    with np.errstate(invalid="ignore"):
        tiny = 1e-9 * max(1.0, float(np.nanmax(np.abs(other), initial=0.0)))
        return ((one > tiny) & (other < -tiny)) | ((one < -tiny) & (other > tiny))


FINDING = Finding("sign_flips", "Whitening changes the sign of advantages", check)
