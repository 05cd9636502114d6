"""Recorded advantages beyond anything that the rewards can give.

A rollout is named when its recorded advantage is, in size, above all of

* three times the largest z-score that its group can have (√(n − 1) with ddof 0, (n − 1)/√n with ddof 1);
* ten times the spread and the size of the batch's rewards: no difference of rewards, sum of a few of them,
  or return less value is as large;
* 3·√B for a batch of B rollouts, as whitening over a batch gives one rollout at most √(B − 1); and
* twenty times the median size of the recorded advantages other than 0.

critical where the named rollouts carry more than half of the batch's Σ|A| (by trainable tokens), warning
otherwise. Advantages that vary inside a rollout are judged by their largest token.

Seen as: loss and gradient-norm spikes of one step, a colour scale on which everything else is white,
leave-one- out stds that explode beside a single different reward (AReaL#1673, AReaL#1419, AReaL#1454,
NeMo-RL#4158).

Remedy: look at how these rows were grouped and what their std was; clip advantages until that is mended,
where that takes at least half of their share away.

Evidence: `rollouts`, `largest`, `limit`, `bound` (`n`, `max_abs_zscore_ddof1`, `max_abs_zscore_ddof0`),
`reward_scale`, `median_abs_advantage`, `share_of_abs_advantage`,
`tried` (clipping: `helps`, the `bound`, their `share` then).
"""

import math
from typing import Any

import numpy as np

from app.findings import recorded, remedies
from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.remedies import Tried
from app.findings.view import Floats, View
from app.formatting import number, percent, plural

Z_SCORES, REWARDS, BATCH, MEDIANS = 3.0, 10.0, 3.0, 20.0
HALF = 0.5


def begin(view: View) -> dict[str, Any]:
    return {"largest": np.zeros(view.rollouts), "total": np.zeros(view.rollouts), "values": 0.0}


def observe(part: Part, state: dict[str, Any]) -> None:
    values = part.get("values")
    if values is not None and (there := part.mask & np.isfinite(values)).any():
        state["values"] = max(state["values"], float(np.abs(values[there]).max()))
    given = part.get("advantages")
    if given is None:
        return
    size = np.abs(np.where(part.mask & np.isfinite(given), given, 0.0))
    state["largest"][part.rows] = np.maximum(part.high(size), 0.0)
    state["total"][part.rows] = part.sum(size)


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["outlier_advantages"]
    alone = np.where(view.valid != 0, np.abs(np.nan_to_num(view.advantage)), 0.0)
    largest: Floats = np.maximum(state["largest"], alone)
    total: Floats = np.where(state["total"] > 0, state["total"], alone * np.maximum(view.valid, 1))
    some = largest[largest > 0]
    if some.size < 2 or not view.scored.any():
        return None
    rewards = view.reward[view.scored]
    scale = max(float(np.abs(rewards).max()), float(np.ptp(rewards)), state["values"])
    bound = recorded.z_bound(view.sizes.astype(np.float64))[view.group]
    median = float(np.median(some))
    limit = np.maximum(
        Z_SCORES * bound, max(REWARDS * scale, BATCH * math.sqrt(view.rollouts), MEDIANS * median)
    )
    found = np.flatnonzero(largest > limit)
    if not found.size:
        return None
    return _report(view, found, largest, total, limit, scale, median)


def _report(
    view: View, found: Any, largest: Floats, total: Floats, limit: Floats, scale: float, median: float
) -> dict[str, Any]:
    worst = int(found[np.argmax(largest[found])])
    n = int(view.sizes[view.group[worst]])
    share = float(total[found].sum() / total.sum())
    z_score = (n - 1) / math.sqrt(n)
    tried = [_clipped(found, largest, total, max(z_score, 1.0), share)]
    return report(
        view,
        "critical" if share > HALF else "warning",
        f"{plural(found.size, 'recorded advantage')} {'is' if found.size == 1 else 'are'} beyond anything "
        f"the rewards can give: up to {number(float(largest[worst]))}, where a z-score of n = {n} is at most "
        f"{number(z_score)} (ddof 1) and rewards reach {number(scale)}.",
        explanation=f"They carry {percent(share)} of the batch's total |advantage|, so the step follows them "
        "and, where gradients are clipped, everything else is scaled to nothing.",
        remedy="Look at what their denominator was: a group of equal rewards, a slice outside every group, a "
        "leave-one-out std beside a single different reward. "
        + remedies.advice(tried, "Leave these rollouts out until that is mended: clipping would not do."),
        evidence={
            "rollouts": found.size,
            "largest": float(largest[worst]),
            "limit": float(limit[worst]),
            "bound": {"n": n, "max_abs_zscore_ddof1": z_score, "max_abs_zscore_ddof0": math.sqrt(n - 1)},
            "reward_scale": scale,
            "median_abs_advantage": median,
            "share_of_abs_advantage": share,
            "tried": remedies.numbers_of(tried),
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


def _clipped(found: Any, largest: Floats, total: Floats, bound: float, share: float) -> Tried:
    """The share of these rollouts with every advantage clipped to ±`bound`; within a rollout all are taken to
    shrink alike."""
    with np.errstate(invalid="ignore", divide="ignore"):
        clipped = np.where(largest > bound, total * bound / largest, total)
    then = float(clipped[found].sum() / clipped.sum())
    sentence = (
        f"Until that is mended, clip advantages to ±{number(bound)}: these rollouts would carry "
        f"{percent(then)} of the total |advantage| (now {percent(share)})."
    )
    return Tried("clip", then <= share / 2, sentence, {"bound": bound, "share": then})


FINDING = Finding(
    "outlier_advantages", "Recorded advantages beyond what the rewards can give", check, observe, begin
)
