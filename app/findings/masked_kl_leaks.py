"""A KL term on tokens that are not trained on gets into rewards or into a mean.

* critical: `token_level_rewards` − `token_level_scores`, the KL penalty, is not 0 on masked tokens and these
  carry at least a tenth of its size; warning where they carry less. Without scores the same is said where
  the reward on masked tokens follows −β·kl (`kl`, or `old_log_probs` − `ref_log_probs`) with one β for all
  of them, to within a thousandth.
* warning: `kl` itself is recorded and not 0 on masked tokens, which carry at least a tenth of Σ|kl|: any
  mean over all positions, and any reward made of it, takes them along. Tool output has a large KL, as no
  policy chose it.

Seen as: KL curves that jump with the first tool calls, rewards that fall with the length of tool output,
padding that counts in the KL mean (OpenRLHF#1239, AReaL#1346, verl#3805, slime#1370, trl#4976).

Remedy: multiply the KL by the mask before it goes anywhere, and divide its sum by the number of trainable
tokens.

Evidence: `source` ("penalty" | "reward" | "kl"), `tokens`, `rollouts`, `sum_of_abs`, `share`, `beta` (or
null), `masked_mean` and `mean_over_all` (of the KL per token: what it is, and what a mean over all positions
says).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.view import Bools, Floats, View
from app.formatting import number, percent, plural

TINY = 1e-9
SHARE = 0.1
EXACT = 1e-3
LEAST = 2  # masked tokens with a reward that must lie on one line through 0
SOURCES = ("penalty", "reward", "kl")


def begin(view: View) -> dict[str, Any]:
    state: dict[str, Any] = {"line": np.zeros(4)}
    for name in SOURCES:
        state[name] = np.zeros(view.rollouts, dtype=np.int64)
        state[f"{name}_masked"], state[f"{name}_all"] = 0.0, 0.0
    return state | {"kl_sums": np.zeros(4)}


def observe(part: Part, state: dict[str, Any]) -> None:
    if "response_mask" not in part.names or part.mask.all():
        return
    rewards, scores = part.floats("token_level_rewards"), part.floats("token_level_scores")
    kl = part.floats("kl")
    if kl is not None:
        _count(part, "kl", kl, state)
        _means(part, kl, state)
    if rewards is not None and scores is not None:
        _count(part, "penalty", _rounded(rewards - scores, rewards, scores), state)
    elif rewards is not None:
        old, ref = part.floats("old_log_probs"), part.floats("ref_log_probs")
        apart = old - ref if kl is None and old is not None and ref is not None else kl
        if apart is not None:
            _line(part, rewards, apart, state)


def _rounded(penalty: Floats, rewards: Floats, scores: Floats) -> Floats:
    """The difference, 0 where it is rounding of the two."""
    size = np.maximum(np.abs(rewards), np.abs(scores))
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(penalty) > 1e-6 * size, penalty, 0.0)


def _count(part: Part, name: str, values: Floats, state: dict[str, Any]) -> None:
    size = np.abs(np.where(np.isfinite(values), values, 0.0))
    wrong = ~part.mask & (size > TINY)
    state[name][part.rows] = part.count(wrong)
    state[f"{name}_masked"] += float(size[wrong].sum())
    state[f"{name}_all"] += float(size.sum())


def _means(part: Part, kl: Floats, state: dict[str, Any]) -> None:
    finite = np.isfinite(kl)
    live = part.mask & finite
    state["kl_sums"] += (kl[live].sum(), live.sum(), kl[finite].sum(), finite.sum())


def _line(part: Part, rewards: Floats, apart: Floats, state: dict[str, Any]) -> None:
    """Sums for reward = −β·kl on masked tokens, but for the last of each rollout, which may hold the "
    "score."""
    last = np.zeros(part.tokens, dtype=bool)
    last[part.ends[part.lengths > 0]] = True
    wrong: Bools = ~part.mask & ~last & np.isfinite(rewards) & np.isfinite(apart) & (np.abs(rewards) > TINY)
    if not wrong.any():
        return
    x: NDArray[np.float64] = apart[wrong]
    y: NDArray[np.float64] = rewards[wrong]
    state["line"] += (x @ x, x @ y, y @ y, y.size)
    state["reward"][part.rows] = part.count(wrong)
    state["reward_masked"] += float(np.abs(y).sum())
    state["reward_all"] += float(np.abs(rewards[np.isfinite(rewards) & ~last]).sum())


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["masked_kl_leaks"]
    beta = _beta(state["line"])
    if state["penalty_masked"] > TINY:
        return _report(view, state, "penalty", None)
    if beta is not None:
        return _report(view, state, "reward", beta)
    if state["kl_masked"] > TINY and state["kl_masked"] >= SHARE * state["kl_all"]:
        return _report(view, state, "kl", None)
    return None


def _beta(line: Floats) -> float | None:
    xx, xy, yy, count = line.tolist()
    if count < LEAST or xx <= 0:
        return None
    slope = xy / xx
    error = yy - slope * xy
    return -slope if slope < 0 and error <= (EXACT**2) * yy else None


def _report(view: View, state: dict[str, Any], source: str, beta: float | None) -> dict[str, Any]:
    found = np.flatnonzero(state[source])
    masked, total = state[f"{source}_masked"], state[f"{source}_all"]
    tokens, share = int(state[source].sum()), masked / total
    live, n, everything, positions = state["kl_sums"].tolist()
    what = {
        "penalty": "a KL penalty in their reward",
        "reward": f"a reward of −{number(beta)} × KL",
        "kl": "a recorded KL other than 0",
    }[source]
    have = "has" if tokens == 1 else "have"
    return report(
        view,
        "critical" if source != "kl" and share >= SHARE else "warning",
        f"{plural(tokens, 'masked token')} of {plural(found.size, 'rollout')} {have} {what}: "
        f"{percent(share)} of its Σ|·| {number(total)}.",
        explanation="The policy did not choose these tokens, so their KL says nothing about it, but it is "
        "large. As a reward it punishes the rollout for what a tool wrote, and group statistics over the "
        "sum of rewards carry it to all siblings.",
        remedy="Multiply the KL by the mask before it is subtracted, summed or averaged, and divide by the "
        "number of trainable tokens.",
        evidence={
            "source": source,
            "tokens": tokens,
            "rollouts": found.size,
            "sum_of_abs": masked,
            "share": share,
            "beta": beta,
            "masked_mean": live / n if n else None,
            "mean_over_all": everything / positions if positions else None,
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("masked_kl_leaks", "KL of masked tokens", check, observe, begin)
