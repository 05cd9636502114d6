"""Recorded advantages that are not 0 where the mask is 0.

Not named: one number for the whole rollout, repeated on every token (an exported scalar), as nothing was
computed there. Otherwise:

* critical: tokens in front of a masked stretch got exactly 0 although later ones and the reward did not: the
  recursion was cut off by the mask, and the first turns learn nothing;
* info: every masked token of the batch has the same number: 0, whitened along with the rest;
* warning: anything else. Masked tokens took part in the recursion, or the numbers are what whitening left
  there.

A loss that is masked does not see them. A mean, a histogram or a whitening over all positions does.

Seen as: advantage means that are not 0, histograms with a second hump, returns that vanish in front of tool
replies (verl#7278, verl#7300, verl#6376, verl#2337, miles#1827, NeMo-RL's padded dumps).

Remedy: multiply advantages by the mask after the last step, and carry returns across masked tokens instead
of resetting them.

Evidence: `tokens`, `rollouts`, `largest`, `sum_of_abs`, `share_of_abs_advantage`, `same_number` (or null),
`zero_before_gap` (trainable tokens that got 0 in front of a masked stretch), `trainable_tokens` (of the
named rollouts), `example` (`index`, `positions`, `advantages`).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.view import Ints, View
from app.formatting import number, plural

TINY = 1e-9
SAME = 1e-6
SHOWN = 8


def begin(view: View) -> dict[str, Any]:
    count = {name: np.zeros(view.rollouts, dtype=np.int64) for name in ("tokens", "cut", "trainable")}
    return count | {
        "masked": np.zeros(view.rollouts),
        "all": 0.0,
        "low": np.inf,
        "high": -np.inf,
        "reward": view.reward,
        "example": None,
    }


def observe(part: Part, state: dict[str, Any]) -> None:
    values = part.floats("advantages")
    if values is None or part.mask.all():
        return
    finite = np.isfinite(values)
    size = np.abs(np.where(finite, values, 0.0))
    state["all"] += float(size.sum())
    wrong = ~part.mask & (size > TINY) & ~part.spread(_repeated(part, values, finite))
    count = part.count(wrong)
    if not count.any():
        return
    state["tokens"][part.rows] = count
    state["masked"][part.rows] = part.sum(np.where(wrong, size, 0.0))
    state["trainable"][part.rows] = part.count(part.mask)
    masked = values[~part.mask & finite & part.spread(count > 0)]
    state["low"], state["high"] = min(state["low"], masked.min()), max(state["high"], masked.max())
    state["cut"][part.rows] = _cut(part, size) * (np.nan_to_num(state["reward"][part.rows]) != 0)
    if state["example"] is None:
        first = int(np.flatnonzero(count)[0])
        places = np.flatnonzero(wrong[part.starts[first] : part.starts[first] + part.lengths[first]])
        shown = places[:SHOWN]
        state["example"] = (part.rows.start + first, shown, values[part.starts[first] + shown])


def _repeated(part: Part, values: Any, finite: Any) -> Any:
    """`[R]` one number on all tokens, masked or not."""
    low, high = part.low(np.where(finite, values, np.inf)), part.high(np.where(finite, values, -np.inf))
    with np.errstate(invalid="ignore"):
        return (part.count(part.mask) > 0) & (high - low <= SAME * np.maximum(np.abs(high), np.abs(low)))


def _cut(part: Part, size: Any) -> Ints:
    """`[R]` trainable tokens with 0 in front of the last masked stretch, where all in front of it have 0 and
    what follows has not."""
    last = part.last(part.mask)
    inner = ~part.mask & (np.arange(part.tokens) < part.spread(last))
    border = part.last(inner)
    before = part.mask & (np.arange(part.tokens) < part.spread(border))
    after = part.mask & (np.arange(part.tokens) > part.spread(border))
    zero, others = part.count(before & (size <= TINY)), part.count(before & (size > TINY))
    live = part.count(after & (size > TINY)) > 0
    return np.where((others == 0) & live & (border >= 0), zero, 0)


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["advantages_on_masked_tokens"]
    found = np.flatnonzero(state["tokens"])
    if not found.size:
        return None
    largest = max(abs(state["low"]), abs(state["high"]))
    same = bool(state["high"] - state["low"] <= SAME * largest)
    cut = int(state["cut"][found].sum())
    severity: Severity = "critical" if cut else "info" if same else "warning"
    tokens, total = int(state["tokens"].sum()), float(state["masked"].sum())
    at, positions, shown = state["example"]
    trainable = int(state["trainable"][found].sum())
    title = f"{plural(tokens, 'masked token')} of {plural(found.size, 'rollout')} "
    title += "has" if tokens == 1 else "have"
    title += f" a recorded advantage other than 0 (up to {number(largest)} in size)"
    if cut:
        title += f", and {cut} of {plural(trainable, 'trainable token')} in front of a masked stretch got 0"
    return report(
        view,
        severity,
        f"{title}.",
        explanation="The recursion was reset at masked tokens: turns before a tool reply get no credit for "
        "what came of them."
        if cut
        else "A masked loss does not see these numbers, but a mean, a histogram or a whitening over all "
        "positions does; and they show that masked positions took part in the computation.",
        remedy="Carry returns across masked tokens, and multiply advantages by the mask after the last "
        "step; look at them through the mask only.",
        evidence={
            "tokens": tokens,
            "rollouts": found.size,
            "largest": largest,
            "sum_of_abs": total,
            "share_of_abs_advantage": total / state["all"],
            "same_number": state["high"] if same else None,
            "zero_before_gap": cut,
            "trainable_tokens": trainable,
            "example": {"index": view.index[at], "positions": positions, "advantages": shown},
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("advantages_on_masked_tokens", "Advantages on masked tokens", check, observe, begin)
