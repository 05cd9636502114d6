"""ReMax: the reward still to come less the reward of the greedy response to the same prompt.

    A_t = G_t − b_i        G_t = Σ_{k ≥ t} r_k

Paper: Li et al. 2023, arXiv:2310.10505. Agrees with verl 0.9.1 (`compute_remax_outcome_advantage`, convention
`remax/verl`).

**Conventions**

- masked tokens in the recursion: left out; they keep G_t, without the baseline, in advantages and returns
- value after the last token: 0
- groups of one: nothing is grouped
- who enters a group: nothing is grouped; the baseline is the rollout's own `reward_baseline`
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: G_t, without the baseline
"""

from dataclasses import dataclass

import torch

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.masked import on_tokens
from estimators.refused import Refused
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.to_go import discounted_sums


@dataclass(frozen=True, slots=True)
class RemaxParams(TokenRewardParams):
    """Nothing of its own."""


def run(batch: Batch, params: RemaxParams, dtype: torch.dtype) -> Raw:
    """One advantage per token; NaN where a rollout's baseline is not recorded."""
    if batch.reward_baseline is None:
        raise Refused("This estimator needs reward_baseline, and this batch has none.")
    rewards = torch.where(batch.response_mask, token_rewards(batch, params, dtype).to(dtype), 0.0)
    returns = discounted_sums(rewards, batch, 1.0)
    baseline = on_tokens(batch.reward_baseline.to(dtype), batch.response_mask, batch.lengths)
    return Raw(returns - baseline, per_token=True, returns=returns)


ESTIMATOR = Estimator(
    name="remax",
    sentence="Scores a response against the greedy response to the same prompt.",
    formula="A_t = Σ_{k ≥ t} r_k − b_i",
    paper="https://arxiv.org/abs/2310.10505",
    needs=("reward", "reward_baseline"),
    params=RemaxParams,
    run=run,
)
