"""Right answers of one length and wrong ones of another: the loss mean decides what is learned.

Inside groups, advantage and length (trainable tokens) go together, so that the advantage averaged over
tokens is far from the one averaged over responses. Under a mean over each response a token of a short
response weighs more; under a mean over tokens long responses weigh more; the two then pull in different
directions.

* By chance: `z` is the correlation of length and advantage inside groups, as often as √(degrees of
  freedom). At least 4, with |token mean of A| ≥ 0.3 × mean |A|. info; warning from 0.5 on.
* Of a few rollouts (at most six to compare, where no z says much): in every group the winners are all at
  least three times as long as the losers, or all at most a third. info: it is a fact of these rollouts, and
  no more.

0.3 is past what a few truncated wrong answers make of a healthy batch.

Seen as: responses that grow while accuracy stands still, long wrong answers that are liked
(understand-r1-zero#11, verl#593, trl#3138, open-instruct#1161, verl#3741).

Remedy: choose the aggregation on purpose (token mean, or a constant denominator as in Dr. GRPO), look at
the loss weights beside the advantages, and shape overlong answers rather than cutting them.

Evidence: `token_mean_advantage`, `response_mean_advantage`, `mean_abs_advantage`, `correlation`, `z`,
`mean_length_of_winners`, `mean_length_of_losers`, `weight_of_one_token` (of the longest and the shortest
response under each mean), `ratio_of_weights`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.findings import recorded
from app.findings.finding import Finding, Severity, report
from app.findings.view import Floats, Ints, View, group_statistics
from app.formatting import number, percent, signed

CERTAIN, EFFECT, STRONG = 4.0, 0.3, 0.5
FEW, TIMES = 6, 3.0


@dataclass(frozen=True, slots=True)
class Compared:
    """Rollouts of groups with differing rewards: their places, lengths, advantages and groups."""

    places: Ints
    length: Floats
    advantage: Floats
    group: Ints


def check(view: View) -> dict[str, Any] | None:
    if not view.grouped:
        return None
    rows = _compared(view)
    if rows is None:
        return None
    moved = np.abs(rows.advantage).mean()
    token_mean = float(rows.length @ rows.advantage / rows.length.sum())
    effect = abs(token_mean) / moved
    correlation, z = _correlation(view, rows)
    groups = np.unique(rows.group).size
    if rows.places.size <= FEW:
        severity: Severity = "info"
        if not _apart(rows):
            return None
    elif effect < EFFECT or abs(z) < CERTAIN:
        return None
    else:
        severity = "warning" if effect >= STRONG else "info"
    return _report(view, rows, severity, token_mean, (correlation, z, groups))


def _compared(view: View) -> Compared | None:
    groups = group_statistics(view.reward, view.group, view.groups)
    rows = view.scored & groups.differing[view.group] & (view.valid > 0)
    if rows.sum() < 2:
        return None
    places = np.flatnonzero(rows)
    given = recorded.one_per_rollout(view)[places].all()
    centred = (view.reward - groups.mean[view.group])[places]
    scores = centred / groups.std[view.group[places]]
    advantage = view.advantage[places] if given and view.advantage[places].any() else scores
    return Compared(places, view.valid[places].astype(np.float64), advantage, view.group[places])


def _correlation(view: View, rows: Compared) -> tuple[float, float]:
    """Of length and advantage, both centred on their group; and how far from 0 in standard errors."""
    count = np.maximum(np.bincount(rows.group, minlength=view.groups), 1)

    def centre(values: Floats) -> Floats:
        return values - (np.bincount(rows.group, values, minlength=view.groups) / count)[rows.group]

    length, advantage = centre(rows.length), centre(rows.advantage)
    size = math.sqrt(float(length @ length) * float(advantage @ advantage))
    found = float(length @ advantage) / size if size else 0.0
    return found, found * math.sqrt(max(rows.places.size - np.unique(rows.group).size, 1))


def _apart(rows: Compared) -> bool:
    """In every group the winners are all much longer than the losers, or in every group all much shorter."""
    ways = set()
    for group in np.unique(rows.group):
        mine = rows.group == group
        won, lost = rows.length[mine & (rows.advantage > 0)], rows.length[mine & (rows.advantage < 0)]
        if not won.size or not lost.size:
            return False
        longer, shorter = won.min() >= TIMES * lost.max(), TIMES * won.max() <= lost.min()
        if not longer and not shorter:
            return False
        ways.add(bool(longer))
    return len(ways) == 1


def _report(
    view: View, rows: Compared, severity: Severity, token_mean: float, tested: tuple[float, float, int]
) -> dict[str, Any]:
    correlation, z, _ = tested
    won, lost = rows.length[rows.advantage > 0].mean(), rows.length[rows.advantage < 0].mean()
    longer, better = ("longer", "long") if won > lost else ("shorter", "short")
    ratio = max(won, lost) / min(won, lost)
    moved = float(np.abs(rows.advantage).mean())
    return report(
        view,
        severity,
        f"Better responses are {longer} ({number(float(won))} against {number(float(lost))} trainable tokens "
        f"on average): under a mean over each response, a token of a "
        f"{'short worse' if won > lost else 'short better'} one weighs {number(float(ratio))} times as much.",
        explanation=f"The advantage is {signed(token_mean)} on average over tokens, and "
        f"{signed(float(rows.advantage.mean()))} over responses ({percent(abs(token_mean), moved)} of its "
        f"usual size apart): a token mean mostly {'reinforces' if token_mean > 0 else 'suppresses'}, a "
        f"mean over responses balances. Which one the loss takes decides whether {better} answers are "
        "learned.",
        remedy="Choose the aggregation on purpose: a mean over tokens, or a constant denominator (Dr. GRPO), "
        "does not tie a token's weight to its response's length; look at the loss weights.",
        evidence={
            "token_mean_advantage": token_mean,
            "response_mean_advantage": float(rows.advantage.mean()),
            "mean_abs_advantage": moved,
            "correlation": correlation,
            "z": z,
            "mean_length_of_winners": float(won),
            "mean_length_of_losers": float(lost),
            "weight_of_one_token": _weights(rows),
            "ratio_of_weights": float(ratio),
            "rollouts": rows.places.size,
        },
        groups=np.unique(rows.group),
        rollouts=rows.places,
    )


def _weights(rows: Compared) -> dict[str, list[float]]:
    """What one token of the longest and of the shortest response weighs under each mean."""
    ends = [float(rows.length.max()), float(rows.length.min())]
    total, count = float(rows.length.sum()), rows.length.size
    return {
        "token_mean": [1 / total for _ in ends],
        "seq_mean_token_mean": [1 / (count * length) for length in ends],
    }


FINDING = Finding("length_bias", "Better and worse responses differ in length", check)
