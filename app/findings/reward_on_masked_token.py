"""Reward on tokens that are not trained on. Rollouts without any trainable token are another finding's.

Seen as: episodes that end with a tool's message and learn nothing, returns that are smaller than the reward
(verl#7278, AReaL#1346, miles#1383, verl#6476).

Remedy: put the reward on the last trainable token.

Evidence: `rollouts_with_masked_reward`, `masked_tokens_with_reward`, `masked_abs_reward`,
`trainable_abs_reward`, `share`, `rollouts_with_masked_reward_only`, `field`, `example` (`index`,
`reward_at`, `last_trainable`, `reward`); where recorded advantages show that GAE went over every position:
`gamma`, `lam` and `attenuation`, what is left of the example's reward at its last trainable token, (γλ)^k.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.recursion import SAME, Recorded, parameters, recorded
from app.findings.token_facts import REWARDS
from app.findings.view import Ints, View
from app.formatting import number, percent, plural

#: Less than this on all masked tokens of a rollout together is rounding.
TINY = 1e-9


#: Rollouts of a part that are looked at for what their advantages have of the reward.
SOME = 64


def begin(view: View) -> dict[str, Any]:
    places = {name: np.full(view.rollouts, -1, dtype=np.int64) for name in ("at", "last")}
    return places | {"reward": view.reward, "header": view.header, "parameters": None, "discounted": {}}


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
        _discounts(part, part.last(given), state)


def _discounts(part: Part, rewarded: Ints, state: dict[str, Any]) -> None:
    """Of rollouts whose reward stands behind the last trainable token: those whose recorded advantage there
    is that of GAE over every position, with how many steps the reward came."""
    made = recorded(part, state["reward"][part.rows])
    found = None if made is None else parameters(part, made, state["header"])
    if made is None or found is None:
        return
    last = part.last(part.mask)
    for i in np.flatnonzero((last >= 0) & (rewarded > last))[:SOME].tolist():
        if _over_every_position(made, int(last[i]), int(part.ends[i]), *found):
            state["parameters"] = found
            state["discounted"][part.rows.start + i] = int(rewarded[i] - last[i])


def _over_every_position(made: Recorded, at: int, end: int, gamma: float, both: float) -> bool:
    """Whether the advantage at the last trainable token counts the tokens behind it as steps."""
    following = np.append(made.value[at + 1 : end + 1], 0.0)
    errors = made.reward[at : end + 1] + gamma * following - made.value[at : end + 1]
    plain = float(errors @ both ** np.arange(errors.size))
    near = abs(made.advantage[at] - plain) <= SAME * (made.scale + abs(plain))
    return bool(near) and abs(plain - (made.reward[at] - made.value[at])) > 10 * SAME * made.scale


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
    state = view.facts["reward_on_masked_token"]
    first = next((row for row in found.tolist() if row in state["discounted"]), int(found[0]))
    severity: Severity = "critical" if share >= 0.1 else "warning" if share >= 0.01 else "info"
    return report(
        view,
        severity,
        f"{found.size} of {plural(view.rollouts, 'rollout')} {'has' if found.size == 1 else 'have'} reward "
        f"on masked tokens ({facts.reward_field}): Σ|r| {number(lost)}, {percent(share)} of the batch's.",
        explanation=f"For {plural(unseen, 'rollout')} no reward at all stands on a trainable token. "
        f"{_said(_attenuation(state, first))}Estimators differ in what becomes of it: GAE that skips masked "
        "tokens loses it, GAE over every position discounts it on the way to the first trainable token, "
        "group estimators that sum without the mask count it.",
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
        }
        | _attenuation(state, first),
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


def _said(left: dict[str, Any]) -> str:
    if not left:
        return ""
    return f"The recorded advantages have {number(left['attenuation'])} of it, γλ for every token between. "


def _attenuation(state: dict[str, Any], row: int) -> dict[str, Any]:
    """What the recorded advantages show to be left of the rollout's reward."""
    if row not in state["discounted"]:
        return {}
    gamma, both = state["parameters"]
    lam = both / gamma if gamma else 0.0
    return {"gamma": gamma, "lam": lam, "attenuation": both ** state["discounted"][row]}


FINDING = Finding("reward_on_masked_token", "Reward on tokens that are not trained on", check, observe, begin)
