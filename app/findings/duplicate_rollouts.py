"""The same rollout more than once.

Rows are the same where everything recorded is equal. A short answer may well be sampled twice, so equal
rows count only if they have at least 8 tokens or 40 characters, or if every row of the batch occurs equally
often, at least twice (the file was written, or read, twice).

Seen as: counts that are twice the batch size, advantages of 0 for groups that are copies of one answer,
accumulated dumps read as one step (verl#7785, trackio#133, verl#916).

Remedy: read every file once, look at whether an export is cumulative (each file repeats older rows), raise
the temperature where short answers repeat.

Evidence: `copies`, `rollouts`, `share`, `distinct_repeated`, `most_times`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.view import View
from app.formatting import percent, plural

TOKENS, CHARACTERS, LEAST = 8, 40, 8


def check(view: View) -> dict[str, Any] | None:
    if view.rollouts < 2:
        return None
    _, first, member, times = np.unique(
        view.digest.astype(str), return_index=True, return_inverse=True, return_counts=True
    )
    whole = times.size >= LEAST and bool((times == times[0]).all()) and int(times[0]) >= 2
    telling = (view.length >= TOKENS) | (view.characters >= CHARACTERS) | whole
    repeated = (times[member] > 1) & telling
    if not repeated.any():
        return None
    copies = np.flatnonzero(repeated & (first[member] != np.arange(view.rollouts)))
    share = copies.size / view.rollouts
    severity: Severity = "critical" if share >= 0.25 else "warning"
    title = (
        f"Every rollout is there {int(times[0])} times."
        if whole
        else f"{copies.size} of {plural(view.rollouts, 'rollout')} ({percent(share)}) "
        f"{'repeats' if copies.size == 1 else 'repeat'} another one in everything recorded."
    )
    return report(
        view,
        severity,
        title,
        explanation="A copy votes again in its group's mean and std and counts again in the loss: its "
        "siblings are held against a baseline that leans its way.",
        remedy="Look for a shard read twice, a retried request that was written twice, or gathered ranks "
        "that overlap; drop the copies.",
        evidence={
            "copies": copies.size,
            "rollouts": view.rollouts,
            "share": share,
            "distinct_repeated": int(np.unique(member[repeated]).size),
            "most_times": int(times[member[repeated]].max()),
        },
        groups=np.unique(view.group[repeated]) if view.grouped else (),
        rollouts=np.flatnonzero(repeated),
    )


FINDING = Finding("duplicate_rollouts", "The same rollout more than once", check)
