"""Log-probabilities above 0: no probability is above 1.

Looked at: `old_log_probs`, `ref_log_probs` and `rollout_log_probs` on trainable tokens. Values up to 1e-4
are rounding of float32 logits (a logit of 1,000 is rounded by 6e-5) and never count.

* critical: most tokens of a field are above 0: it holds probabilities (all between 0 and 1) or −log p;
* warning: a value above 0.1, a "probability" of more than 1.1, which no rounding of a log-softmax gives;
* info: smaller ones on at least one token in 1,000: the log-softmax was computed in 16 bits.

Seen as: importance ratios far from 1 at the first update, a KL estimate that is negative on average, losses
of the wrong sign (verl#5229, slime#1968).

Remedy: record log p from a float32 log-softmax; take the logarithm of probabilities; swap the sign of
negative log-likelihoods.

Evidence: `fields` by field: `tokens` looked at, `positive` ones, `share`, `largest`, and `looks_like`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.view import View
from app.formatting import number, percent, plural

FIELDS = ("old_log_probs", "ref_log_probs", "rollout_log_probs")
ROUNDING, LARGE = 1e-4, 0.1
MOST, FEW = 0.5, 1e-3


def begin(view: View) -> dict[str, Any]:
    return {"size": view.rollouts, "fields": {}}


def observe(part: Part, state: dict[str, Any]) -> None:
    for name in FIELDS:
        values = part.get(name)
        if values is None:
            continue
        with np.errstate(invalid="ignore"):
            here = part.mask & np.isfinite(values)
            above = here & (values > ROUNDING)
        fact = state["fields"].setdefault(
            name,
            {"tokens": 0, "largest": -np.inf, "smallest": np.inf, "rollouts": np.zeros(state["size"], int)},
        )
        fact["tokens"] += int(here.sum())
        if here.any():
            fact["largest"] = max(fact["largest"], float(values[here].max()))
            fact["smallest"] = min(fact["smallest"], float(values[here].min()))
        if above.any():
            fact["rollouts"][part.rows] += part.count(above)


def check(view: View) -> dict[str, Any] | None:
    said = {name: _judge(fact) for name, fact in view.facts["positive_log_probs"]["fields"].items()}
    found = {name: judged for name, judged in said.items() if judged is not None}
    if not found:
        return None
    facts = view.facts["positive_log_probs"]["fields"]
    worst = min(found, key=lambda name: ("critical", "warning", "info").index(found[name][0]))
    severity, looks = found[worst]
    positive, tokens = int(facts[worst]["rollouts"].sum()), facts[worst]["tokens"]
    rows = sum(facts[name]["rollouts"] for name in found)
    return report(
        view,
        severity,
        f"{worst} is above 0 on {positive} of {plural(tokens, 'trainable token')} "
        f"({percent(positive, tokens)}), up to {number(facts[worst]['largest'])}: {looks}.",
        explanation="A log-probability is at most 0. Ratios and KL terms made of these numbers are wrong by "
        "their exponential: a value of 0.1 too high is a ratio of 1.11, and a field of the wrong sign or "
        "without its logarithm makes every ratio meaningless.",
        remedy="Record log p of the sampled token from a log-softmax in float32; take the logarithm of "
        "probabilities, and swap the sign of negative log-likelihoods.",
        evidence={
            "fields": {
                name: {
                    "positive": int(facts[name]["rollouts"].sum()),
                    "tokens": facts[name]["tokens"],
                    "share": int(facts[name]["rollouts"].sum()) / facts[name]["tokens"],
                    "largest": facts[name]["largest"],
                    "looks_like": found[name][1],
                }
                for name in found
            }
        },
        rollouts=np.flatnonzero(rows),
    )


def _judge(fact: dict[str, Any]) -> tuple[Severity, str] | None:
    """How bad one field is, and what it looks like."""
    positive = int(fact["rollouts"].sum())
    if not positive:
        return None
    if positive > MOST * fact["tokens"]:
        if fact["smallest"] >= 0 and fact["largest"] <= 1 + ROUNDING:
            return "critical", "these look like probabilities, not their logarithm"
        return "critical", "these look like negative log-probabilities (the sign is swapped)"
    if fact["largest"] > LARGE:
        return "warning", "no rounding makes that of a probability"
    if positive >= FEW * fact["tokens"]:
        return "info", "this looks like a log-softmax in 16 bits"
    return None


FINDING = Finding("positive_log_probs", "Log-probabilities above 0", check, observe, begin)
