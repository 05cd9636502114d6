"""Sums over tokens that several checks and pages use: see `app.findings.view.TokenFacts`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.findings.part import RAGGED, Part
from app.findings.view import TokenFacts
from storage import arrays

#: Fields of whole numbers: nothing in them can be NaN.
WHOLE = (*RAGGED, "response_ids", "response_mask", "response_token_sizes")
#: Where reward stands on tokens: the first that is there, as the second may contain a KL term.
REWARDS = ("token_level_scores", "token_level_rewards")


def reward_field(names: Sequence[str]) -> str | None:
    """Which of a batch's fields has the reward on tokens; None also where no mask is there."""
    return next((name for name in REWARDS if name in names and "response_mask" in names), None)


def observe(part: Part, facts: TokenFacts, rollouts: int) -> None:
    """Add a part's tokens to the facts of a batch of so many rollouts."""
    if facts.bad_on_mask is None:
        facts.bad_on_mask = np.zeros(rollouts, dtype=np.int64)
    for name in sorted(part.names.difference(WHOLE)):
        values = part.get(name)
        if values is not None and values.dtype.kind == "f":
            _nonfinite(facts, name, part, values, rollouts)
    _rewards(facts, part, rollouts)
    _advantages(facts, part, rollouts)


def _nonfinite(facts: TokenFacts, name: str, part: Part, values: NDArray[Any], rollouts: int) -> None:
    odd = ~np.isfinite(values)
    if not odd.any():
        return
    odd &= part.has_token(name)
    null = arrays.is_missing(values) & odd
    kinds = {
        "NaN": np.isnan(values) & odd & ~null,
        "Infinity": values == np.inf,
        "-Infinity": values == -np.inf,
        "null": null & part.mask,
    }
    for kind, which in kinds.items():
        if which.any():
            tokens = facts.bad.setdefault(name, {}).setdefault(kind, np.zeros(rollouts, dtype=np.int64))
            tokens[part.rows] += part.count(which)
    assert facts.bad_on_mask is not None
    facts.bad_on_mask[part.rows] += part.count(odd & ~null & ~part.mask)


def _rewards(facts: TokenFacts, part: Part, rollouts: int) -> None:
    values = None if facts.reward_field is None else part.get(facts.reward_field)
    if values is None:
        return
    if facts.masked_reward is None or facts.masked_rewarded is None or facts.trainable_reward is None:
        facts.masked_reward, facts.trainable_reward = np.zeros(rollouts), np.zeros(rollouts)
        facts.masked_rewarded = np.zeros(rollouts, dtype=np.int64)
    finite = np.where(np.isfinite(values), values, 0.0)
    outside = np.where(part.mask, 0.0, np.abs(finite))
    facts.masked_reward[part.rows] = part.sum(outside)
    facts.masked_rewarded[part.rows] = part.count(outside > 0)
    facts.trainable_reward[part.rows] = part.sum(np.where(part.mask, finite, 0.0))


def _advantages(facts: TokenFacts, part: Part, rollouts: int) -> None:
    values = part.get("advantages")
    if values is None:
        return
    if facts.advantage is None or facts.advantage_spread is None:
        facts.advantage, facts.advantage_spread = np.full(rollouts, np.nan), np.full(rollouts, np.nan)
    taken = part.mask & np.isfinite(values)
    count = part.count(taken)
    some = count > 0
    total = part.sum(np.where(taken, values, 0.0))[some]
    highest, lowest = part.high(np.where(taken, values, -np.inf)), part.low(np.where(taken, values, np.inf))
    mean, span = np.full(part.rollouts, np.nan), np.full(part.rollouts, np.nan)
    mean[some], span[some] = total / count[some], highest[some] - lowest[some]
    facts.advantage[part.rows], facts.advantage_spread[part.rows] = mean, span
