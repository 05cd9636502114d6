"""Trainer and sampler log-probabilities that differ by a constant, or by a shift of one token.

`d = old_log_probs − rollout_log_probs` on trainable tokens. Sampled from the same policy, d has mean −KL
and a variance of about 2·KL, so its spread is larger than its mean as long as KL < 2. What is not so has
another cause than an update of the policy:

* constant: in rollouts with at least three tokens, |mean| > 0.01 and the spread is at most a quarter of it,
  for most tokens of the batch: a temperature, a padded vocabulary, or a normaliser that one side leaves
  out;
* shifted: comparing each token with its neighbour's other number brings the mean |d| (above 0.1) down to
  less than a quarter of it: one side is off by one token;
* reversed: the mean of d is above 0.02 by five standard errors on 200 tokens or more. What was sampled from
  the recorded policy cannot, on average, be likelier under another one (Gibbs' inequality).

Seen as: ratios that start at exp(c) instead of 1, a rising mismatch KL with an unchanged policy, importance
weights all above or below 1 (verl#5229, verl-omni#280, slime#1968, SkyRL#354, trl#6789).

Remedy: compute both from the same logits: same temperature, same vocabulary slice, same token; align them
before any importance weight.

Evidence: `kind`, `offset` (mean of d), `factor` exp(offset), `spread` (std of d, ddof 1), `tokens`,
`mean_abs_difference`, and where shifted `shift` with `mean_abs_difference_shifted`.
"""

import math
from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.view import Bools, Floats, View
from app.formatting import number, percent, plural, signed

OLD, SAMPLER = "old_log_probs", "rollout_log_probs"
LEAST, OFFSET, TIGHT, MOST = 3, 0.01, 0.25, 0.5
SHIFT_TOKENS, SHIFT_GAP = 6, 0.1
REVERSED, CERTAIN, MANY = 0.02, 5.0, 200


def begin(view: View) -> dict[str, Any]:
    names = ("tokens", "sum", "squares", "absolute", "pairs", "aligned", "later", "earlier")
    return {name: np.zeros(view.rollouts) for name in names}


def observe(part: Part, state: dict[str, Any]) -> None:
    old, sampler = part.floats(OLD), part.floats(SAMPLER)
    if old is None or sampler is None:
        return
    both = part.mask & np.isfinite(old) & np.isfinite(sampler)
    if not both.any():
        return
    rows = part.rows
    gap = np.where(both, np.subtract(old, sampler, where=both, out=np.zeros_like(old)), 0.0)
    state["tokens"][rows] = part.count(both)
    state["sum"][rows], state["squares"][rows] = part.sum(gap), part.sum(gap**2)
    state["absolute"][rows] = part.sum(np.abs(gap))
    beside = both[:-1] & both[1:] & (part.owner[:-1] == part.owner[1:])
    state["pairs"][rows] = part.count(np.append(beside, False))
    for name, values in (
        ("aligned", gap[:-1]),
        ("later", old[:-1] - sampler[1:]),  # the sampler's number stands one token too late
        ("earlier", old[1:] - sampler[:-1]),
    ):
        kept = np.zeros(part.tokens)
        np.abs(values, out=kept[:-1], where=beside)
        state[name][rows] = part.sum(kept)


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["log_prob_offset"]
    if not state["tokens"].sum():
        return None
    return _shifted(view, state) or _constant(view, state) or _reversed(view, state)


def _shifted(view: View, state: dict[str, Floats]) -> dict[str, Any] | None:
    pairs = state["pairs"].sum()
    if pairs < SHIFT_TOKENS:
        return None
    aligned = state["aligned"].sum() / pairs
    name, shift = min((("later", 1), ("earlier", -1)), key=lambda way: float(state[way[0]].sum()))
    moved = state[name].sum() / pairs
    if aligned <= SHIFT_GAP or moved >= TIGHT * aligned:
        return None
    where = "late" if shift > 0 else "early"
    return _report(
        view,
        state,
        "critical",
        f"{SAMPLER} stands one token too {where} against {OLD}: moved by one, the mean difference falls from "
        f"{number(float(aligned))} to {number(float(moved))}.",
        "shifted",
        np.flatnonzero(state["tokens"] > 0),
        {"shift": shift, "mean_abs_difference_shifted": float(moved)},
    )


def _constant(view: View, state: dict[str, Floats]) -> dict[str, Any] | None:
    tokens = state["tokens"]
    mean, spread = _moments(state)
    with np.errstate(invalid="ignore"):
        steady: Bools = (tokens >= LEAST) & (np.abs(mean) > OFFSET) & (spread <= TIGHT * np.abs(mean))
    if tokens[steady].sum() <= MOST * tokens.sum():
        return None
    offset = float(np.average(mean[steady], weights=tokens[steady]))
    apart = float(np.sqrt(np.average((mean[steady] - offset) ** 2, weights=tokens[steady])))
    one = apart <= TIGHT * abs(offset)
    what = (
        f"{OLD} and {SAMPLER} differ by a constant of {signed(offset)} a token"
        if one
        else f"{OLD} and {SAMPLER} differ by a constant of its own in each rollout "
        f"(from {signed(float(mean[steady].min()))} to {signed(float(mean[steady].max()))})"
    )
    return _report(
        view,
        state,
        "critical" if abs(offset) > SHIFT_GAP else "warning",
        f"{what}, in {int(steady.sum())} of {plural(int((tokens > 0).sum()), 'rollout')}: every ratio starts "
        + (f"at {number(math.exp(min(offset, 700.0)))} instead of 1." if one else "away from 1."),
        "constant" if one else "constant in each rollout",
        np.flatnonzero(steady),
        {"rollouts_with_constant": int(steady.sum())},
    )


def _reversed(view: View, state: dict[str, Floats]) -> dict[str, Any] | None:
    tokens = state["tokens"].sum()
    mean = state["sum"].sum() / tokens
    spread = math.sqrt(max(state["squares"].sum() / tokens - mean**2, 0.0))
    if tokens < MANY or mean <= REVERSED or mean <= CERTAIN * spread / math.sqrt(tokens):
        return None
    return _report(
        view,
        state,
        "warning",
        f"{OLD} is higher than {SAMPLER} by {number(float(mean))} a token on average: what the sampler chose "
        "cannot be likelier under another policy than under its own.",
        "reversed",
        np.flatnonzero(state["tokens"] > 0),
        {},
    )


def _report(
    view: View,
    state: dict[str, Floats],
    severity: Severity,
    title: str,
    kind: str,
    rows: Any,
    more: dict[str, Any],
) -> dict[str, Any]:
    tokens = state["tokens"].sum()
    mean = float(state["sum"].sum() / tokens)
    spread = math.sqrt(max(float(state["squares"].sum() / tokens) - mean * mean, 0.0))
    share = percent(rows.size, int((state["tokens"] > 0).sum()))
    return report(
        view,
        severity,
        title,
        explanation="Importance ratios, truncated importance weights and mismatch KL are made of this "
        f"difference. In {share} of the rollouts with both fields it is not what an update of the policy "
        "leaves: that would spread more than it moves the mean.",
        remedy="Compute both from the same logits: same temperature, same slice of the vocabulary, same "
        "token (position t scores token t); check the alignment before any importance weight.",
        evidence={
            "kind": kind,
            "offset": mean,
            "factor": math.exp(min(mean, 700.0)),
            "spread": spread * math.sqrt(tokens / (tokens - 1)) if tokens > 1 else None,
            "tokens": int(tokens),
            "mean_abs_difference": float(state["absolute"].sum() / tokens),
            **more,
        },
        rollouts=rows,
    )


def _moments(state: dict[str, Floats]) -> tuple[Floats, Floats]:
    """`[B]` mean and std (ddof 0) of the differences; NaN without tokens."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = state["sum"] / state["tokens"]
        variance = np.maximum(state["squares"] / state["tokens"] - mean**2, 0.0)
    return mean, np.sqrt(variance)


FINDING = Finding("log_prob_offset", "Trainer and sampler log-probs a constant apart", check, observe, begin)
