"""Responses with no token, or with a text of nothing but white space.

Where every text of the batch is empty although there are trainable tokens, the text was just not recorded.

Seen as: rewards for nothing, empty rows in the mean, shape errors on the last token (verl#1718,
OpenRLHF#1239, miles#1383).

Remedy: look at why generation stopped at once (stop words, context overflow, a failed tool), and leave such
rows out of the group's baseline.

Evidence: `empty`, `rollouts`, `share`, `fillers` (rows without a trainable token, prompt and reward, which
only fill up the batch), `without_tokens`, `with_reward`, `highest_reward`.
"""

from typing import Any

import numpy as np

from app.findings.fillers import fillers as fillers_in
from app.findings.finding import Finding, Severity, report
from app.findings.view import View
from app.formatting import number, percent, plural


def check(view: View) -> dict[str, Any] | None:
    blank = view.texts & view.blank
    unrecorded = bool(view.texts.any()) and bool(blank[view.texts].all()) and bool((view.valid > 0).any())
    empty = (view.length == 0) | (np.zeros_like(blank) if unrecorded else blank)
    found = np.flatnonzero(empty)
    if found.size == 0:
        return None
    share = found.size / view.rollouts
    fillers = fillers_in(view)[found]
    rewards = view.reward[found]
    rewarded = int((np.nan_to_num(rewards) != 0).sum())
    severity: Severity = "critical" if share >= 0.1 and rewarded else "info" if fillers.all() else "warning"
    best = float(np.nanmax(rewards)) if np.isfinite(rewards).any() else None
    are = "is" if found.size == 1 else "are"
    title = f"{found.size} of {plural(view.rollouts, 'response')} ({percent(share)}) {are} empty"
    if fillers.any():
        which = "They are" if fillers.all() else f"{int(fillers.sum())} of them are"
        title += (
            f". {which} rows that only fill up the batch (no trainable token, no prompt) and are set aside"
        )
    return report(
        view,
        severity,
        title + (f"; {rewarded} with a reward other than 0 (up to {number(best)})." if rewarded else "."),
        explanation="There is nothing to train on, yet the reward may move the group's mean, and a score "
        "written at “the last token” of an empty response lands on a pad or at index −1.",
        remedy="Leave empty responses out of the group, or score them as failures before the advantages are "
        "computed; look for a stop string or an end-of-text token that is sampled first.",
        evidence={
            "empty": found.size,
            "rollouts": view.rollouts,
            "share": share,
            "fillers": int(fillers.sum()),
            "without_tokens": int((view.length == 0).sum()),
            "with_reward": rewarded,
            "highest_reward": best,
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("empty_response", "Empty responses", check)
