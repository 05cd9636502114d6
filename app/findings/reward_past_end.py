"""The reward was written behind the end of the response.

Behind the end is, of the tokens with mask 0 that follow the last trainable one,

* a token that is padding by its id or text (`app.findings.special_tokens`);
* the slot right behind the last trainable token, where further masked ones follow it: an observation that
  ends the response has the reward on its last token, not on its first. At least nine in ten of the rewarded
  rollouts must have it there, and two of them, as one may be chance;
* any slot of a response without a trainable token: index −1 of an empty response is its last pad.

* critical: at least a tenth of the batch's Σ|reward| lies there; warning otherwise.

Whoever sums rewards under the mask never sees it; whoever sums without sees a reward that no token earned.
Reward on an observation is `reward_on_masked_token`, which is also said where it applies.

Seen as: PPO that scores one slot behind the end token (trl#3750), a score written at index −1 of an empty
response (verl#6476, verl#6310, verl#6639), returns that are 0 on every trainable token.

Remedy: write the score on the last token with mask 1, and score empty responses apart.

Evidence: `rollouts`, `empty_responses`, `one_behind`, `abs_reward`, `share`, `field`, `example` (`index`,
`reward_at`, `last_trainable` (−1 without one), `reward`).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.special_tokens import padding
from app.findings.token_facts import REWARDS
from app.findings.view import View
from app.formatting import number, percent, plural

TINY = 1e-9
SHARE = 0.1
MOST, LEAST = 0.9, 2


def begin(view: View) -> dict[str, Any]:
    amount = {name: np.zeros(view.rollouts) for name in ("padding", "next", "all")}
    place = {name: np.full(view.rollouts, -1, dtype=np.int64) for name in ("last", "at")}
    return {
        "header": view.header,
        "field": next((n for n in REWARDS if view.fields.get(n) == "recorded"), None),
    } | (amount | place)


def observe(part: Part, state: dict[str, Any]) -> None:
    name = state["field"] or next((name for name in REWARDS if name in part.names), None)
    values = None if name is None else part.floats(name)
    if values is None or "response_mask" not in part.names:
        return
    state["field"] = name
    size = np.abs(np.where(np.isfinite(values), values, 0.0))
    state["all"][part.rows] = part.sum(size)
    given = (size > TINY) & ~part.mask
    if not given.any():
        return
    last = part.last(part.mask)
    behind = given & (np.arange(part.tokens) > part.spread(last))
    rewarded = part.last(behind)
    within = np.where(last >= 0, last - part.starts, -1)
    state["last"][part.rows] = within
    state["at"][part.rows] = np.where(rewarded >= 0, rewarded - part.starts, -1)
    pads = behind & (padding(part, state["header"]) | part.spread(last < 0))
    state["padding"][part.rows] = part.sum(np.where(pads, size, 0.0))
    following = (
        behind & (part.position == part.spread(within) + 1) & (part.position < part.spread(part.lengths) - 1)
    )
    state["next"][part.rows] = part.sum(np.where(following & ~pads, size, 0.0))


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["reward_past_end"]
    on_padding, one_behind = state["padding"] > TINY, state["next"] > TINY
    rewarded = int((state["all"] > TINY).sum())
    if not (int(one_behind.sum()) >= LEAST and one_behind.sum() >= MOST * rewarded):
        one_behind = np.zeros_like(one_behind)
    found = np.flatnonzero(on_padding | one_behind)
    if not found.size:
        return None
    amount = float((state["padding"] + np.where(one_behind, state["next"], 0.0))[found].sum())
    share = amount / float(state["all"].sum())
    empty = int((state["last"][found] < 0).sum())
    first = int(found[0])
    at, last = int(state["at"][first]), int(state["last"][first])
    end = f"its last trainable token is {last}" if last >= 0 else "it has no trainable token"
    return report(
        view,
        "critical" if share >= SHARE else "warning",
        f"{found.size} of {plural(view.rollouts, 'rollout')} {'has' if found.size == 1 else 'have'} reward "
        f"behind the end of the response (rollout {int(view.index[first])}: on position {at}, {end}): Σ|r| "
        f"{number(amount)}, {percent(share)} of the batch's.",
        explanation="Estimators that respect the mask never see this reward, so a solved prompt looks like a "
        "failure; those that sum without the mask give it to the rollout although no token earned it.",
        remedy="Write the score on the last token with mask 1 (by length, not at index −1), and score empty "
        "responses apart.",
        evidence={
            "rollouts": found.size,
            "empty_responses": empty,
            "one_behind": int((state["at"][found] == state["last"][found] + 1).sum()),
            "abs_reward": amount,
            "share": share,
            "field": state["field"],
            "example": {
                "index": int(view.index[first]),
                "reward_at": at,
                "last_trainable": last,
                "reward": view.reward[first],
            },
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("reward_past_end", "Reward behind the end of the response", check, observe, begin)
