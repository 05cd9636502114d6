"""A data source whose advantages are all of one sign once the batch is whitened as a whole.

Of at least two data sources, one has four or more scored rollouts whose rewards are all on one side of the
batch mean, although its own groups have winners and losers. For fewer than eleven rollouts that happens by
chance, so the source's mean must then also be 2.6 standard errors away from the rest (two-sample t, unequal
variances).

* warning: the recorded advantages of the source are all of that sign; or none is recorded, and the header
  names an estimator whose baseline is the batch.
* info: no advantage is recorded and the header does not say what the baseline is: it would be so.
* Nothing is said where the recorded advantages of the source have both signs, where the header names an
  estimator with another baseline than the batch, or of a split that is measured and not trained on.

Seen as: one task improves and another gets worse in a mixed run, whatever their own rewards say
(OpenRLHF#856, ROLL#475, miles#3229).

Remedy: what gives the source both signs on this batch, of three that are tried: centre within each prompt
group first, whiten per data source, divide each source's rewards by their std.

Evidence: `recorded`, `batch_mean`, `batch_std_ddof1`, by data source `rollouts`, `mean_reward`,
`mean_whitened`, `sign`; `tried` (by remedy: `helps`, and the `positive_share` of the largest such source).
"""

import math
from typing import Any

import numpy as np

from app.findings import recorded, remedies
from app.findings.finding import Finding, report
from app.findings.remedies import Tried
from app.findings.settings import baseline_of, is_evaluation
from app.findings.view import Bools, Floats, View, group_statistics
from app.formatting import number, percent, plural, signed

LEAST, CERTAIN, ERRORS = 4, 11, 2.6
#: A remedy helps where at least this share of the task's rollouts has either sign.
BALANCED = 0.1


def check(view: View) -> dict[str, Any] | None:
    scored = view.scored & (view.valid != 0)
    if len(view.sources) < 2 or not view.grouped or scored.sum() < 2 * LEAST or is_evaluation(view):
        return None
    given = recorded.counted(view)
    baseline = baseline_of(view)
    if not given.any() and baseline in ("group", "apart"):
        return None
    groups = group_statistics(view.reward, view.group, view.groups)
    overall = float(view.reward[scored].mean())
    spread = float(view.reward[scored].std(ddof=1))
    centred = view.reward - groups.mean[view.group]
    found = [
        s
        for s in range(len(view.sources))
        if _one_sided(view.reward[scored & (view.source == s)], overall)
        and _both_signs(centred[scored & (view.source == s)])
        and _apart(view.reward[scored & (view.source == s)], view.reward[scored & (view.source != s)])
        and (not given.any() or _pushed(view, given & (view.source == s), overall))
    ]
    if not found or spread == 0:
        return None
    certain = bool(given.any()) or baseline == "batch"
    return _report(view, found, (view.reward - overall) / spread, overall, spread, certain)


def _pushed(view: View, rows: Bools, overall: float) -> bool:
    """The recorded advantages of these rollouts are all on their rewards' side of the batch mean."""
    side = np.sign(view.reward[rows] - overall)
    return bool(rows.any() and (np.sign(view.advantage[rows]) == side).all())


def _report(
    view: View, found: list[int], whitened: Floats, overall: float, spread: float, certain: bool
) -> dict[str, Any]:
    rows = view.scored & np.isin(view.source, found)
    worst = max(found, key=lambda s: int((view.source == s).sum()))
    mine = whitened[view.scored & (view.source == worst)]
    sign = "negative" if mine[0] < 0 else "positive"
    name = view.sources[worst]
    more = f" (and {plural(len(found) - 1, 'other data source')})" if len(found) > 1 else ""
    is_so = bool(recorded.counted(view).any())
    tried = _tried(view, worst)
    return report(
        view,
        "warning" if certain else "info",
        f"All {plural(mine.size, 'rollout')} of data source {name!r} have a recorded {sign} advantage, as "
        f"whitening over the batch gives{more}."
        if is_so
        else f"Whitened over the batch, all {plural(mine.size, 'rollout')} of data source {name!r} would get "
        f"a {sign} advantage (mean {signed(float(mine.mean()))}){more}.",
        explanation=f"The batch mean ({number(overall)}, std {number(spread)}, ddof 1) stands for the "
        f"mixture of tasks, not for {name!r}: its best responses are pushed the same way as its worst, and "
        "the step learns which task it was given instead of how to answer.",
        remedy=remedies.advice(tried, "Look at the task's own groups: its rewards hardly differ in them."),
        evidence={
            "recorded": is_so,
            "batch_mean": overall,
            "batch_std_ddof1": spread,
            "data_sources": {
                view.sources[s]: {
                    "rollouts": int((view.scored & (view.source == s)).sum()),
                    "mean_reward": float(view.reward[view.scored & (view.source == s)].mean()),
                    "mean_whitened": float(whitened[view.scored & (view.source == s)].mean()),
                    "sign": "negative" if whitened[view.scored & (view.source == s)][0] < 0 else "positive",
                }
                for s in found
            },
            "tried": remedies.numbers_of(tried),
        },
        groups=np.unique(view.group[rows]),
        rollouts=np.flatnonzero(rows),
    )


def _tried(view: View, task: int) -> list[Tried]:
    """The share of the task's rollouts with a positive advantage, taken off the mean of other scopes."""
    rows = view.scored & (view.valid != 0)
    mine, source = rows & (view.source == task), np.maximum(view.source, 0)
    groups = group_statistics(view.reward, view.group, view.groups)
    tasks = group_statistics(view.reward, source, len(view.sources))
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = view.reward / tasks.std[source]
    usable = rows & np.isfinite(scaled)
    ways = (
        ("centre_on_group", "Centre within each prompt group first", view.reward - groups.mean[view.group]),
        ("whiten_per_task", "Whiten per data source", view.reward - tasks.mean[source]),
        ("one_scale", "Divide each task's rewards by their std", scaled - scaled[usable].mean()),
    )
    tried = []
    for name, what, values in ways:
        share = float((values[mine] > 0).mean())
        sentence = f"{what}: {percent(share)} of its {plural(int(mine.sum()), 'rollout')} would be positive."
        balanced = BALANCED <= share <= 1 - BALANCED
        tried.append(Tried(name, balanced, sentence, {"positive_share": share}))
    return tried


def _one_sided(rewards: Floats, overall: float) -> bool:
    return rewards.size >= LEAST and bool((rewards < overall).all() or (rewards > overall).all())


def _both_signs(centred: Floats) -> bool:
    tiny = 1e-9 * max(1.0, float(np.abs(centred).max()))
    return bool((centred > tiny).any() and (centred < -tiny).any())


def _apart(own: Floats, rest: Floats) -> bool:
    if own.size >= CERTAIN or rest.size < 2:
        return own.size >= CERTAIN
    error = math.sqrt(own.var(ddof=1) / own.size + rest.var(ddof=1) / rest.size)
    return bool(abs(own.mean() - rest.mean()) > ERRORS * error)


FINDING = Finding("task_offset", "A task is all of one sign under batch whitening", check)
