"""Responses that were cut off by the length limit.

Some are always cut off; a finding is made of it from 20 % of the rollouts that say how they ended (and at
least two, or one of at most four), warning from 35 %, critical where it is half of them and their rewards
take part in training. Responses are cut off where `truncated` or the finish reason says so.

What happens to them differs: most trainers treat them as ended, so that a correct beginning is punished as a
failure; some mask their tokens but leave their reward in the group's mean; with a critic, the value behind
the cut should take the place of what was not written (`bootstrap_value`).

Seen as: responses that shorten or grow without end, rewards that fall when the limit is lowered, loss 0 for
all long answers (trl#1536, trl#6369, trl#3476, trl#3248, skrl#449, OpenRLHF#238, open-instruct#1137).

Remedy: raise the limit or shape the reward towards it (DAPO's ramp); mask them and take them out of the
baseline, where that leaves at least half of the groups with a signal; with a critic, bootstrap from the value
behind the cut.

Evidence: `truncated`, `known`, `share`, `fully_masked`, `scored`, `mean_reward` and `mean_reward_of_others`,
`with_bootstrap_value`, `median_length`, `median_length_of_others`, `tried` (leaving them out: `helps`,
`groups_with_signal` before and after, and the largest `shift_of_a_mean`).
"""

from typing import Any

import numpy as np

from app.findings import remedies
from app.findings.finding import Finding, Severity, report
from app.findings.remedies import Tried
from app.findings.view import Bools, Floats, View, group_statistics
from app.formatting import number, percent, plural

SHARE, MANY, HALF = 0.2, 0.35, 0.5
LEAST, SMALL = 2, 4


def check(view: View) -> dict[str, Any] | None:
    cut, known = view.truncated == 1, view.truncated >= 0
    count = int(cut.sum())
    # Who marks only what was cut off says of the others that they were not.
    total = int(known.sum()) if (view.truncated == 0).any() else view.rollouts
    if not count or count / total < SHARE or (count < LEAST and total > SMALL):
        return None
    share = count / total
    masked = cut & (view.valid == 0)
    voting = cut & view.scored & ~masked
    grave = share >= HALF and bool(voting.any()) and total > SMALL
    severity: Severity = "critical" if grave else "warning" if share >= MANY else "info"
    mine, others = _mean(view.reward, cut & view.scored), _mean(view.reward, ~cut & view.scored)
    compared = f" (mean reward {number(mine)}, others {number(others)})" if mine is not None else ""
    bootstrap = view.columns.bootstrap_value
    tried = [_left_out(view, cut)] if view.grouped and voting.any() else []
    return report(
        view,
        severity,
        f"{count} of {plural(total, 'response')} ({percent(share)}) {'was' if count == 1 else 'were'} cut "
        f"off by the length limit{compared}"
        + (f"; {int(masked.sum())} of them with every token masked." if masked.any() else "."),
        explanation="A response that was cut off did not fail, it was not finished: scored as ended it "
        "teaches to avoid long thoughts, right ones too. Masked but scored it still moves the mean of its "
        "group.",
        remedy=remedies.advice(tried, "", _always(view)),
        evidence={
            "truncated": count,
            "known": total,
            "share": share,
            "fully_masked": int(masked.sum()),
            "scored": int((cut & view.scored).sum()),
            "mean_reward": mine,
            "mean_reward_of_others": others,
            "with_bootstrap_value": int(np.isfinite(bootstrap[cut]).sum())
            if bootstrap.size == cut.size
            else 0,
            "median_length": _median(view, cut),
            "median_length_of_others": _median(view, ~cut),
            "tried": remedies.numbers_of(tried),
        },
        groups=np.unique(view.group[cut]) if view.grouped else (),
        rollouts=np.flatnonzero(cut),
    )


def _left_out(view: View, cut: Bools) -> Tried:
    """The groups' rewards without the responses that were cut off."""
    before = group_statistics(view.reward, view.group, view.groups)
    after = group_statistics(np.where(cut, np.nan, view.reward), view.group, view.groups)
    some, left = int(before.differing.sum()), int(after.differing.sum())
    shift = np.abs(after.mean - before.mean)
    moved = float(np.nanmax(shift)) if np.isfinite(shift).any() else 0.0
    sentence = (
        f"Mask these responses and take them out of the baseline: {left} of {plural(some, 'group')} with a "
        f"signal would keep one, and a group's mean would move by up to {number(moved)}."
    )
    numbers = {"groups_with_signal_before": some, "groups_with_signal": left, "shift_of_a_mean": moved}
    return Tried("leave_out", left > 0 and 2 * left >= some, sentence, numbers)


def _always(view: View) -> str:
    """What cannot be tried on this batch."""
    critic = view.fields.get("values") == "recorded"
    more = " Let the critic's value behind the cut stand for the rest." if critic else ""
    return f"Raise the limit, or shape the reward towards it.{more}"


def _mean(values: Floats, rows: Bools) -> float | None:
    return float(values[rows].mean()) if rows.any() else None


def _median(view: View, rows: Bools) -> float | None:
    known = rows & (view.length >= 0)
    return float(np.median(view.length[known])) if known.any() else None


FINDING = Finding("truncated_rollouts", "Responses cut off by the length limit", check)
