"""Reward on tokens that are not trained on. Rollouts without any trainable token are another finding's.

Seen as: episodes that end with a tool's message and learn nothing, returns that are smaller than the reward
(verl#7278, AReaL#1346, miles#1383, verl#6476).

Remedy: put the reward on the last trainable token.

Evidence: `rollouts_with_masked_reward`, `masked_tokens_with_reward`, `masked_abs_reward`,
`trainable_abs_reward`, `share`, `rollouts_with_masked_reward_only`, `field`, `example` (`index`,
`reward_at`, `last_trainable`, `reward`).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.token_facts import REWARDS
from app.findings.view import View
from app.formatting import number, percent, plural

#: Less than this on all masked tokens of a rollout together is rounding.
TINY = 1e-9


def begin(view: View) -> dict[str, Any]:
    return {name: np.full(view.rollouts, -1, dtype=np.int64) for name in ("at", "last")}


def observe(part: Part, state: dict[str, Any]) -> None:
    """The last masked token with reward, and the last token that is trained on, of each rollout."""
    name = next((name for name in REWARDS if name in part.names), None)
    values = None if name is None else part.floats(name)
    if values is None or "response_mask" not in part.names:
        return
    given = (np.abs(np.where(np.isfinite(values), values, 0.0)) > TINY) & ~part.mask
    if given.any():
        for key, tokens in (("at", given), ("last", part.mask)):
            place = part.last(tokens)
            state[key][part.rows] = np.where(place >= 0, place - part.starts, -1)


def check(view: View) -> dict[str, Any] | None:
    facts = view.tokens
    if facts.masked_reward is None or facts.masked_rewarded is None or facts.trainable_reward is None:
        return None
    found = np.flatnonzero((facts.masked_reward > TINY) & (view.valid > 0))
    if found.size == 0:
        return None
    lost = float(facts.masked_reward[found].sum())
    kept = float(np.abs(facts.trainable_reward[view.valid > 0]).sum())
    share = lost / (lost + kept)
    unseen = int((np.abs(facts.trainable_reward[found]) <= TINY).sum())
    state, first = view.facts["reward_on_masked_token"], int(found[0])
    severity: Severity = "critical" if share >= 0.1 else "warning" if share >= 0.01 else "info"
    return report(
        view,
        severity,
        f"{found.size} of {plural(view.rollouts, 'rollout')} {'has' if found.size == 1 else 'have'} reward "
        f"on masked tokens ({facts.reward_field}): Σ|r| {number(lost)}, {percent(share)} of the batch's.",
        explanation=f"For {plural(unseen, 'rollout')} no reward at all stands on a trainable token. "
        "Estimators differ in what becomes of it: GAE that skips masked tokens loses it, GAE over every "
        "position discounts it on the way to the first trainable token, group estimators that sum without "
        "the mask count it.",
        remedy="Put the reward on the last trainable token, or end the rollout with a token of the policy.",
        evidence={
            "rollouts_with_masked_reward": found.size,
            "masked_tokens_with_reward": int(facts.masked_rewarded[found].sum()),
            "masked_abs_reward": lost,
            "trainable_abs_reward": kept,
            "share": share,
            "rollouts_with_masked_reward_only": unseen,
            "field": facts.reward_field,
            "example": {
                "index": int(view.index[first]),
                "reward_at": int(state["at"][first]),
                "last_trainable": int(state["last"][first]),
                "reward": view.reward[first],
            },
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("reward_on_masked_token", "Reward on tokens that are not trained on", check, observe, begin)
