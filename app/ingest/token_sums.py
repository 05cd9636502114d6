"""The reward of a rollout whose file has it per token only: the sum over the response.

All tokens of the response count, masked ones too, as in every estimator that sums token rewards
(verl/trainer/ppo/core_algos.py: `token_level_rewards.sum(dim=-1)`). Rewards before a KL penalty are taken
where both are there: they are what the environment gave.
"""

import numpy as np

from app.ingest.record import Rollout

#: The first that is there is summed up.
SUMMED = ("token_level_scores", "token_level_rewards")
MASK = "response_mask"


def derive_reward(rollout: Rollout) -> None:
    """Set `reward` and say by which rule; a reward that is there stays, and so does its absence where the sum
    is no number: that of an empty response, or with NaN, null or an infinity on a trainable token. On masked
    tokens these are left out, as estimators do."""
    name = next((name for name in SUMMED if name in rollout.tokens), None)
    if rollout.reward is not None or name is None:
        return
    values = rollout.tokens[name].astype(np.float64, copy=False)
    total = float(values.sum())
    if not np.isfinite(total) and (mask := rollout.tokens.get(MASK)) is not None:
        total = float(np.where((mask > 0) | np.isfinite(values), values, 0.0).sum())
    if values.size and np.isfinite(total):
        rollout.reward = total
        rollout.derived["reward"] = f"derived:sum({name})"
