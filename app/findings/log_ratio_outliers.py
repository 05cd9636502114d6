"""A few rollouts, mostly short ones, whose log-ratio is out of line with all others.

d = old_log_probs − rollout_log_probs on trainable tokens; a rollout's log-ratio is Σd. Named are rollouts
with |Σd| of at least 2 (a ratio beyond 7.4, or below 0.14) whose mean |d| is at least 0.1 and 10 times that
of the median rollout, where they are less than a quarter of at least 8. A mean or a median over the tokens of
the batch hides them, as they have few tokens.

warning; info where all of them come from another policy version than all others, which explains it.

Seen as: sequence ratios that explode or vanish for single samples while the mean difference looks fine,
samples that a sequence mask drops (trl#4772, trl#6789, rllm#760).

Remedy: look at the named rollouts: other tokens than were sampled, a placeholder for a log-prob, another
policy version, a wrong row joined; mask them until it is known.

Evidence: `rollouts`, `of_rollouts`, `tokens` of them (fewest and most), `largest_log_ratio`,
`median_mean_abs_difference`, `mean_abs_difference` over all tokens of the batch, `policy_versions` where they
explain it, `example` (`index`, `tokens`, `log_ratio`, `ratio`).
"""

import math
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.view import Bools, Ints, View
from app.formatting import number, plural, signed

LEAST, SHARE = 8, 0.25
LOG_RATIO, GAP, TIMES = 2.0, 0.1, 10.0


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["log_prob_offset"]
    tokens, total, size = state["tokens"], state["sum"], state["absolute"]
    known = tokens > 0
    several = int(known.sum())
    if several < LEAST:
        return None
    mean = size / np.maximum(tokens, 1)
    usual = float(np.median(mean[known]))
    odd: Bools = known & (np.abs(total) >= LOG_RATIO) & (mean >= max(GAP, TIMES * usual))
    places = np.flatnonzero(odd)
    if not places.size or places.size >= SHARE * several:
        return None
    return _report(view, places, usual, known, _versions(view, odd, known & ~odd))


def _report(view: View, places: Ints, usual: float, known: Bools, versions: list[int]) -> dict[str, Any]:
    state = view.facts["log_prob_offset"]
    tokens, total = state["tokens"], state["sum"]
    first = int(places[np.argmax(np.abs(total[places]))])
    fewest, most = int(tokens[places].min()), int(tokens[places].max())
    length = plural(most, "token") if fewest == most else f"{fewest} to {most} tokens"
    own, sum_of = int(tokens[first]), float(total[first])
    ratio, index = math.exp(max(min(sum_of, 700.0), -700.0)), int(view.index[first])
    return report(
        view,
        "info" if versions else "warning",
        f"{places.size} of {plural(int(known.sum()), 'rollout')} ({length}) have log-ratios out of line: "
        f"rollout {index} has {signed(sum_of)} over {plural(own, 'token')} (ratio {number(ratio)}), the "
        f"median rollout differs by {number(usual)} a token.",
        explanation="The weight of such a rollout is clipped, masked or many times that of the others, while "
        "means over the batch's tokens hardly move."
        + (" They were sampled by other policy versions than the others." if versions else ""),
        remedy="Look at these rollouts: other tokens than were sampled, a placeholder for a log-prob, "
        "another policy version, or rows that were joined wrongly. Leave them out of the loss until it is "
        "known.",
        evidence={
            "rollouts": places.size,
            "of_rollouts": int(known.sum()),
            "tokens": [fewest, most],
            "largest_log_ratio": sum_of,
            "median_mean_abs_difference": usual,
            "mean_abs_difference": float(state["absolute"].sum() / tokens.sum()),
            **({"policy_versions": versions} if versions else {}),
            "example": {"index": index, "tokens": own, "log_ratio": sum_of, "ratio": ratio},
        },
        rollouts=places,
    )


def _versions(view: View, odd: Bools, others: Bools) -> list[int]:
    """The policy versions of the odd rollouts, where none of the others has one of them."""
    known = view.columns.known.get("policy_version")
    if known is None or not known[odd | others].all():
        return []
    own, rest = (np.unique(view.columns.policy_version[which]) for which in (odd, others))
    return [] if np.isin(own, rest).any() else own.tolist()


FINDING = Finding("log_ratio_outliers", "Rollouts whose log-ratio is out of line with all others", check)
