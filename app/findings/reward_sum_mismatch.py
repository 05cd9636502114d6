"""Rollouts whose token rewards sum up to another number than their reward.

Estimators that read tokens (verl's, GAE, REINFORCE++) sum up one of the two, those that read rollouts (TRL's,
AReaL's, NeMo-RL's) take the other, so the same file gives two different advantages. Compared is the sum over
the response, masked tokens included, and that over its trainable tokens alone, with room for bfloat16; of
rewards before and after a KL penalty one has to agree.

Nothing is said where the file explains the difference or leaves a usual explanation open: one multiple of the
KL of its log-probs, a number of the header that scales, shifts or bounds rewards, pieces of one rollout that
sum up together, or rewards of their own on most trainable tokens (a penalty per token).

* info: all sums fit one usual thing to do: scaled, clipped or normalised rewards, another reward for rollouts
  that were cut off, a reward that is the mean, the last, the highest or the lowest of the token rewards;
* warning: a constant or a component is missing, every token has the whole reward, or nothing known fits.

Seen as: rewards of earlier turns that never reach the tokens (SkyRL#201, SkyRL#226), a raw and a discounted
reward side by side (AReaL#1681), a critic that learns another return than the group baseline.

Remedy: write the whole reward on the tokens, or record as reward what they sum up to; name a scale or a
penalty in the header.

Evidence: `field`, `compared`, `differing`, `share`, `largest_difference`, `reading` (what fits, null where
nothing does), its numbers (`offset`, `factor`, `left_out` …), `centred_difference` (how far the two are apart
after each group's mean is taken off), `example` (`index`, `reward`, `sum`).
"""

from typing import Any

import numpy as np

from app.findings import reward_readings, token_sums
from app.findings.finding import Finding, report
from app.findings.token_sums import TINY, Sums
from app.findings.view import View, group_statistics
from app.formatting import number, percent, plural

OWN_SUM = "derived:sum("


def check(view: View) -> dict[str, Any] | None:
    sums: Sums = view.facts["reward_sum_mismatch"]
    if not sums.off.any() or view.fields.get("reward", "").startswith(OWN_SUM):
        return None
    if reward_readings.harmless(view, sums):
        return None
    found = reward_readings.reading(view, sums)
    places = np.flatnonzero(sums.off)
    apart = np.abs(sums.sums - sums.reward)[places]
    first = int(places[np.argmax(apart > 0.5 * apart.max())])
    compared = int(sums.compared.sum())
    centred = _centred(view, sums)
    example = {"index": int(view.index[first]), "reward": view.reward[first], "sum": sums.sums[first]}
    return report(
        view,
        "info" if found is not None and found.meant else "warning",
        f"In {places.size} of {plural(compared, 'rollout')} ({percent(places.size, compared)}) {sums.field} "
        f"sum up to another number than the reward: rollout {example['index']} has "
        f"{number(float(example['sum']))} on its tokens and a reward of {number(float(example['reward']))}.",
        explanation=f"{_words(found)} {_consequence(centred)}",
        remedy="Write the whole reward on the tokens, or record as reward what they sum up to. Where the "
        "difference is meant (a scale, a penalty), name it in the header.",
        evidence={
            "field": sums.field,
            "compared": compared,
            "differing": places.size,
            "share": places.size / compared,
            "largest_difference": apart.max(),
            "reading": None if found is None else found.name,
            **({} if found is None else found.numbers),
            "centred_difference": centred,
            "example": example,
        },
        rollouts=places,
    )


def _words(found: reward_readings.Reading | None) -> str:
    if found is None:
        return "No scale, shift, bound, component or KL of this file explains the difference."
    return found.words


def _centred(view: View, sums: Sums) -> float | None:
    """How far the two are apart at most, less their group's means; None without siblings."""
    if not view.grouped:
        return None
    gap = np.where(sums.compared, sums.sums - sums.reward, np.nan)
    groups = group_statistics(gap, view.group, view.groups)
    several = groups.scored >= 2
    if not several.any():
        return None
    away = np.abs(gap - groups.mean[view.group])[several[view.group] & sums.compared]
    return float(away.max())


def _consequence(centred: float | None) -> str:
    both = (
        "Estimators that sum up token rewards (GAE, REINFORCE++, GRPO in verl) work with the sums, those "
        "that take the reward of a rollout (GRPO in TRL or AReaL) with the reward"
    )
    if centred is None:
        return f"{both}."
    if centred <= TINY:
        return f"{both}; less the mean of their group the two are the same: only baselines of groups hide it."
    return f"{both}; less the mean of their group they are up to {number(centred)} apart."


FINDING = Finding(
    "reward_sum_mismatch",
    "Token rewards that do not sum up to the reward",
    check,
    token_sums.observe,
    token_sums.begin,
)
