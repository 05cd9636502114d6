"""Log-probabilities that are exactly 0 at the end of the responses, while another field has a number there.

0 would be a probability of 1. Looked at are the trainable tokens behind the last one whose number is not 0:
where another log-prob of the same tokens is below −0.05 on average, they have no number of their own. Said
where it is so in at least half of the rollouts with both fields (and two), and next to no other trainable
token of the field is exactly 0.

warning.

Seen as: pad and end token with one id, so that "not padding" drops the end of every response; tails filled
with 0 where ids and log-probs have other lengths (unsloth#6738, ms-swift#9903, rllm#816).

Remedy: tell padding by its place and not by its id; score the end token as every other; mask tokens without a
log-prob.

Evidence: by field with such zeros: `rollouts`, `of_rollouts`, `tokens`, `beside` (the other field),
`mean_beside` (its mean there), `ratio_up_to` (exp of the largest |difference|), `zeros_elsewhere`.
"""

import math
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.view import Ints, View
from app.formatting import number, plural

FIELDS = ("old_log_probs", "ref_log_probs", "rollout_log_probs")
BELOW, HALF, LEAST, ELSEWHERE = -0.05, 0.5, 2, 0.02


@dataclass(slots=True)
class Tails:
    """Of one field beside another: rollouts with both, those with zeros at their end and a number beside
    them, and over those tokens their count, the sum and the least of the other field; zeros elsewhere, of all
    tokens looked at."""

    known: int = 0
    rows: list[Ints] = field(default_factory=list)
    tokens: int = 0
    total: float = 0.0
    least: float = 0.0
    elsewhere: int = 0
    looked_at: int = 0


def begin(view: View) -> dict[tuple[str, str], Tails]:
    return {}


def observe(part: Part, state: dict[tuple[str, str], Tails]) -> None:
    there = [name for name in FIELDS if name in part.names]
    if len(there) < 2:
        return
    last = part.last(part.mask)
    last = last[last >= 0]
    ends = {name: values[last] for name in there if (values := part.floats(name)) is not None}
    for name, beside in permutations(ends, 2):
        kept = state.setdefault((name, beside), Tails())
        kept.known += int((part.has(name) & part.has(beside)).sum())
        with np.errstate(invalid="ignore"):
            # The last tokens tell in nearly every part that there is nothing.
            some = bool(((ends[name] == 0.0) & (ends[beside] < BELOW)).any())
        if some:
            _tails(part, name, beside, kept)


def _tails(part: Part, name: str, beside: str, kept: Tails) -> None:
    values, others = part.floats(name), part.floats(beside)
    assert values is not None and others is not None
    both = part.mask & np.isfinite(values) & np.isfinite(others)
    real = part.last(both & (values != 0.0))
    tail = both & (np.arange(part.tokens) > part.spread(real))
    count = part.count(tail)
    mean = part.sum(np.where(tail, others, 0.0)) / np.maximum(count, 1)
    odd = (count > 0) & (real >= 0) & (mean < BELOW)
    chosen = tail & part.spread(odd)
    kept.rows.append(np.flatnonzero(odd) + part.rows.start)
    kept.tokens += int(chosen.sum())
    kept.total += float(others[chosen].sum())
    kept.least = min(kept.least, float(others[chosen].min(initial=0.0)))
    kept.elsewhere += int((both & (values == 0.0) & ~chosen).sum())
    kept.looked_at += int(both.sum())


def check(view: View) -> dict[str, Any] | None:
    found: dict[str, dict[str, Any]] = {}
    rows: set[int] = set()
    for (name, beside), kept in view.facts["placeholder_log_probs"].items():
        own = [row for part in kept.rows for row in part.tolist()]
        enough = len(own) >= LEAST and len(own) >= HALF * kept.known
        if name in found or not enough or kept.elsewhere > ELSEWHERE * kept.looked_at:
            continue
        rows.update(own)
        found[name] = {
            "rollouts": len(own),
            "of_rollouts": kept.known,
            "tokens": kept.tokens,
            "beside": beside,
            "mean_beside": kept.total / kept.tokens,
            "ratio_up_to": math.exp(min(-kept.least, 700.0)),
            "zeros_elsewhere": kept.elsewhere,
        }
    return _report(view, found, sorted(rows)) if found else None


def _report(view: View, found: dict[str, dict[str, Any]], rows: list[int]) -> dict[str, Any]:
    said = next(iter(found.values()))
    return report(
        view,
        "warning",
        f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} exactly 0 at the end of "
        f"{said['rollouts']} of {plural(said['of_rollouts'], 'response')}, where {said['beside']} has "
        f"{number(said['mean_beside'])} on average.",
        explanation="0 is a probability of 1: a placeholder, and no log-prob. The ratio there is up to "
        f"{number(said['ratio_up_to'])} whatever the policy does, the KL is wrong, and the decision to stop "
        "is trained with it.",
        remedy="Tell padding by its place and not by its id (pad and end token may be one), score the end "
        "token as every other, and mask tokens without a log-prob.",
        evidence=found,
        rollouts=rows,
    )


FINDING = Finding(
    "placeholder_log_probs", "Log-probs of exactly 0 at the end of responses", check, observe, begin
)
