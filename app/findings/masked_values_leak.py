"""Critic values on masked tokens (tool output, padding) that plain GAE takes for the next value.

* critical: the recorded advantages show it. γ and λ are found from adjacent trainable tokens
  (`app.findings.recursion`); in front of a masked stretch the recorded advantage is then what GAE over every
  position gives, and not what GAE over trainable tokens gives.
* warning: some masked value lies further from the values of trainable tokens than five times their range (of
  at least four of them): no critic means that; and the recorded advantages, if any, do not show that it was
  left out.
* Masked values of 0, and values in the usual range that no advantage shows to be used, are not named.

Seen as: advantages that jump in front of tool replies, value losses that do not fall, bootstrapping from
padding behind the end (verl#2337, miles#1827, ROLL#447, alpaca-rlhf#9, verl#1850).

Remedy: take the next *trainable* token's value, discount once per trainable step, and let nothing follow the
last one.

Evidence: `tokens_outside` (masked values outside the range of the trainable ones), `lowest`, `highest`,
`trainable_lowest`, `trainable_highest`, `recorded` ("leaks" | "unknown"), `gamma`, `lam`, `borders`,
`borders_that_leak`, `tokens_concerned` (trainable tokens up to the last such border), `trainable_tokens` (of
the rollouts named), `examples` (masked values outside the range).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.recursion import SAME, Recorded, parameters, recorded
from app.findings.view import Floats, Ints, View
from app.formatting import number, plural

FAR, LEAST = 5.0, 4
MOST = 0.9
KEPT = 1 << 18  # masked values that are kept to be counted at the end
SHOWN = 8


def begin(view: View) -> dict[str, Any]:
    zero = np.zeros(view.rollouts, dtype=np.int64)
    names = ("borders", "leaks", "concerned", "trainable")
    return {name: zero.copy() for name in names} | {
        "header": view.header,
        "reward": view.reward,
        "low": np.inf,
        "high": -np.inf,
        "count": 0,
        "outside": [],
        "kept": 0,
        "parameters": None,
    }


def observe(part: Part, state: dict[str, Any]) -> None:
    value = part.floats("values")
    if value is None:
        return
    finite = np.isfinite(value)
    live = part.mask & finite
    if live.any():
        state["low"], state["high"] = (
            min(state["low"], value[live].min()),
            max(state["high"], value[live].max()),
        )
        state["count"] += int(live.sum())
    behind = np.arange(part.tokens) > part.spread(part.first(part.mask))
    used = behind & ~part.mask & finite & (value != 0)
    if not used.any():
        return
    state["trainable"][part.rows] = part.count(part.mask)
    outside = np.flatnonzero(used & ((value < state["low"]) | (value > state["high"])))[
        : KEPT - state["kept"]
    ]
    state["outside"].append((part.rows.start + part.owner[outside], value[outside]))
    state["kept"] += outside.size
    made = recorded(part, state["reward"][part.rows])
    found = None if made is None else parameters(part, made, state["header"])
    if made is not None and found is not None:
        _borders(part, made, *found, state)


def _borders(part: Part, made: Recorded, gamma: float, both: float, state: dict[str, Any]) -> None:
    """Compare, in front of every masked stretch, with and without what lies in it."""
    last = np.zeros(part.tokens, dtype=bool)
    last[part.ends[part.lengths > 0]] = True
    places = np.flatnonzero(part.mask[:-1] & ~part.mask[1:] & ~last[:-1] & made.known[:-1])
    if not places.size:
        return
    stretch = np.flatnonzero(
        part.mask | last
    )  # where masked stretches end: before one of these, or on a last one
    end = stretch[np.searchsorted(stretch, places + 1)]
    closed = part.mask[end]  # a trainable token follows in the same rollout
    step = made.reward - made.value
    step[~last] += gamma * made.value[1:][~last[:-1]]
    plain = step[places] + _discounted(step, both, places, end, closed)
    following = np.where(closed, end, 0)
    distance = end - places
    plain += np.where(closed, both**distance * made.advantage[following], 0.0)
    masked = made.reward[places] - made.value[places]
    masked += np.where(closed, gamma * made.value[following] + both * made.advantage[following], 0.0)
    tolerance = SAME * made.scale
    tells = np.abs(plain - masked) > 10 * tolerance
    near = np.abs(made.advantage[places] - plain) <= tolerance + SAME * np.abs(plain)
    leaks = tells & near
    bits = np.zeros(part.tokens, dtype=bool)
    bits[places[tells]] = True
    state["borders"][part.rows] = part.count(bits)
    bits[:] = False
    bits[places[leaks]] = True
    state["leaks"][part.rows] = part.count(bits)
    up_to = np.arange(part.tokens) <= part.spread(part.last(bits))
    state["concerned"][part.rows] = part.count(up_to & part.mask)
    state["parameters"] = state["parameters"] or (gamma, both)


def _discounted(step: Floats, both: float, places: Ints, end: Ints, closed: Any) -> Floats:
    """Σ (γλ)^k δ over the masked stretch behind each place."""
    lengths = np.where(closed, end, end + 1) - places - 1
    starts = np.cumsum(lengths) - lengths
    behind = np.arange(int(lengths.sum())) - np.repeat(starts, lengths) + 1
    terms = both ** behind.astype(np.float64) * step[np.repeat(places, lengths) + behind]
    return np.add.reduceat(terms, starts)


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["masked_values_leak"]
    low, high = state["low"], state["high"]
    owner, values = (np.concatenate([each[i] for each in state["outside"]] or [np.empty(0)]) for i in (0, 1))
    out = (values < low) | (values > high) if state["count"] else np.zeros(values.size, dtype=bool)
    owner, values = owner[out].astype(np.int64), values[out]
    borders, leaks = int(state["borders"].sum()), int(state["leaks"].sum())
    proven = leaks >= 1 and leaks >= MOST * borders
    left_out = borders > 0 and leaks < (1 - MOST) * borders
    far = np.maximum(low - values, values - high) > FAR * max(high - low, 1e-6) if values.size else out[:0]
    if not proven and (left_out or not far.any() or state["count"] < LEAST):
        return None
    found = np.flatnonzero(state["leaks"]) if proven else np.unique(owner[far])
    return _report(view, state, found, values, proven)


def _report(view: View, state: dict[str, Any], found: Ints, values: Floats, proven: bool) -> dict[str, Any]:
    low, high = float(state["low"]), float(state["high"])
    concerned, trainable = int(state["concerned"].sum()), int(state["trainable"][found].sum())
    titles = []
    if proven:
        titles.append(
            f"The recorded advantages use critic values of masked tokens: {concerned} of "
            f"{plural(trainable, 'trainable token')} of {plural(found.size, 'rollout')} differ from GAE over "
            "trainable tokens"
        )
    if values.size:
        titles.append(
            f"{plural(values.size, 'masked token')} {'has a value' if values.size == 1 else 'have values'} "
            f"outside the range of the trainable ones ({number(float(values.min()))} to "
            f"{number(float(values.max()))}, trainable {number(low)} to {number(high)})"
        )
    gamma, both = state["parameters"] or (None, None)
    return report(
        view,
        "critical" if proven else "warning",
        "; ".join(titles) + ".",
        explanation="A critic says nothing meaningful about tokens that the policy did not choose. As the "
        "next value of a trainable token such a number becomes a reward that was never given, and the error "
        "runs back to the start of the response.",
        remedy="Skip masked tokens in the recursion: next value and next advantage are those of the next "
        "trainable token, and nothing follows the last one. Or set masked values to those of the next "
        "trainable token.",
        evidence={
            "tokens_outside": values.size,
            "lowest": float(values.min()) if values.size else None,
            "highest": float(values.max()) if values.size else None,
            "trainable_lowest": low,
            "trainable_highest": high,
            "recorded": "leaks" if proven else "unknown",
            "gamma": gamma if proven else None,
            "lam": both / gamma if proven and gamma else None,
            "borders": int(state["borders"].sum()),
            "borders_that_leak": int(state["leaks"].sum()),
            "tokens_concerned": concerned,
            "trainable_tokens": trainable,
            "examples": values[:SHOWN],
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("masked_values_leak", "Values of masked tokens in the advantages", check, observe, begin)
