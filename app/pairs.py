"""Preference pairs of an estimate: the best and the worst response to each prompt, as DPO would train on
them."""

from typing import Any

import torch

from app.tensors import Loaded
from estimators import Request
from estimators.dpo_implicit_reward import preference_pairs
from estimators.rewards import ScoreParams, rollout_scores

#: Most pairs that a summary lists.
LISTED = 32


def pairs_of(loaded: Loaded, request: Request, track: Any) -> dict[str, Any]:
    """For the summary of an implicit reward (`track` `[N]`): how many groups have a pair, how many of those
    the policy orders as the rewards do, and the first pairs by the rollouts' indices. Else nothing."""
    if request.estimator != "dpo_implicit_reward":
        return {}
    batch = loaded.batch
    rewards = torch.as_tensor(track, device=batch.scores.device)
    found = preference_pairs(rollout_scores(batch, ScoreParams()), batch.group, rewards, batch)
    assert found.margin is not None
    index, number = loaded.columns.index, loaded.columns.group_no
    listed = zip(
        found.chosen[:LISTED].tolist(),
        found.rejected[:LISTED].tolist(),
        found.margin[:LISTED].tolist(),
        strict=True,
    )
    items = [
        {
            "group_no": int(number[chosen]),
            "chosen": int(index[chosen]),
            "rejected": int(index[rejected]),
            "margin": margin,
        }
        for chosen, rejected, margin in listed
    ]
    right = int((found.margin > 0).sum())
    return {"pairs": {"count": int(found.chosen.shape[0]), "ordered_rightly": right, "first": items}}
