"""The optimal token baseline: at every position the mean of the group's rewards still to come, each weighted
by how far its response has strayed from what the policy was sure of.

    A_t = G_t − B_t        B_t = Σ_j G_j,t·W_j,t / (Σ_j W_j,t + ε)        W_t = Σ_{k ≤ t} 1 − 2π_k + Σπ_k²

Paper: Li et al. 2026, The Optimal Token Baseline. Agrees with verl 0.9.1
(`compute_optimal_token_baseline_advantage`, convention `optimal_token_baseline/verl`). With
`rollout_is_weights` ρ recorded, the terms of W are multiplied by ρ².

**Conventions**

- masked tokens in the recursion: left out of G and W; positions are places in the response, masked or not
- value after the last token: 0
- groups of one: G_t, without a baseline
- who enters a group: all rollouts; at a position, those with an unmasked token there
- std: none
- ε and where: 1e-8 added to the sum of the weights
- whitening over what: none by default
- what `returns` means: G_t of the rewards on unmasked tokens
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.masked import repeated, segment_sums
from estimators.parameters import About
from estimators.refused import Refused
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.to_go import discounted_sums


@dataclass(frozen=True, slots=True)
class TokenBaselineParams(TokenRewardParams):
    epsilon: Annotated[float, About("ε added to the sum of the weights", minimum=0)] = 1e-8
    handle_zero_tail: Annotated[
        bool, About("no baseline for the longest response where no other of its group has tokens")
    ] = True


def run(batch: Batch, params: TokenBaselineParams, dtype: torch.dtype) -> Raw:
    """One advantage per token, positions counted over all tokens."""
    return against_columns(batch, params, dtype, unmasked_only=False)


def against_columns(
    batch: Batch, params: TokenBaselineParams, dtype: torch.dtype, unmasked_only: bool
) -> Raw:
    """G less the baseline of the token's column in its group; 0 on masked tokens."""
    mask = batch.response_mask
    rewards = torch.where(mask, token_rewards(batch, params, dtype).to(dtype), 0.0)
    returns = discounted_sums(rewards, batch, 1.0)
    weights = running_sums(_energies(batch), batch)
    column = _columns(batch, unmasked_only)
    width = int(batch.lengths.max()) + 1 if batch.rollouts else 1
    cell = repeated(batch.group, batch.lengths) * width + column
    # A token of a rollout without log-probs, or without a score, has no part in the others' baselines.
    counted = mask & torch.isfinite(weights) & torch.isfinite(returns)
    known = torch.where(counted, weights, 0.0)
    gains = torch.where(counted, returns.double(), 0.0)
    numerator, denominator = _sum_by(known * gains, cell), _sum_by(known, cell)
    baseline = torch.where(counted, numerator / (denominator + params.epsilon), torch.nan)
    alone = repeated(_alone(batch, unmasked_only), batch.lengths)
    if params.handle_zero_tail:
        alone = alone | (column >= repeated(_tails(batch, unmasked_only), batch.lengths))
    baseline = torch.where(alone, 0.0, baseline)
    advantages = torch.where(mask, returns - baseline.to(dtype), 0.0)
    return Raw(advantages, per_token=True, returns=returns)


def _energies(batch: Batch) -> Tensor:
    """1 − 2π + Σπ², times ρ² where there are weights, `[N]` float64; 0 on masked tokens."""
    if batch.old_log_probs is None or batch.sum_pi_squared is None:
        raise Refused("This estimator needs old_log_probs and sum_pi_squared of every token.")
    energy = 1.0 - 2.0 * batch.old_log_probs.double().exp() + batch.sum_pi_squared.double()
    if batch.rollout_is_weights is not None:
        energy = energy * batch.rollout_is_weights.double().square()
    return torch.where(batch.response_mask, energy, 0.0)


def running_sums(values: Tensor, batch: Batch) -> Tensor:
    """Sum of `values` `[N]` up to and with each token of its rollout, `[N]`; NaN where not all are finite.

    Summed backwards from the rollout's total, so that nothing of one rollout rounds into another.
    """
    total = repeated(segment_sums(values, batch.offsets), batch.lengths)
    known = torch.where(torch.isfinite(values), values, 0.0)
    exact = repeated(segment_sums(known, batch.offsets), batch.lengths)
    found = exact - discounted_sums(known, batch, 1.0) + known
    return (
        found if bool(torch.isfinite(total).all()) else torch.where(torch.isfinite(total), found, torch.nan)
    )


def _columns(batch: Batch, unmasked_only: bool) -> Tensor:
    """Position of each token in its rollout, or its number among the unmasked ones, `[N]` int64."""
    if not unmasked_only:
        place = torch.arange(batch.tokens, device=batch.offsets.device)
        return place - repeated(batch.offsets[:-1], batch.lengths)
    counted = torch.cumsum(batch.response_mask.long(), 0)
    before = torch.nn.functional.pad(counted, (1, 0))[batch.offsets[:-1]]
    return (counted - 1 - repeated(before, batch.lengths)).clamp(min=0)


def _sum_by(values: Tensor, cell: Tensor) -> Tensor:
    """Sum of `values` `[N]` over the tokens of each one's cell, `[N]`."""
    cells, place = torch.unique(cell, return_inverse=True)
    return values.new_zeros(cells.shape[0]).index_add_(0, place, values)[place]


def _members(batch: Batch, unmasked_only: bool) -> Tensor:
    """`[B]` bool: rollouts that are in their group."""
    return batch.unmasked > 0 if unmasked_only else torch.ones_like(batch.unmasked, dtype=torch.bool)


def _alone(batch: Batch, unmasked_only: bool) -> Tensor:
    """`[B]` bool: rollouts that have nobody else in their group."""
    members = _members(batch, unmasked_only).long()
    groups = int(batch.group.max()) + 1 if batch.rollouts else 0
    return members.new_zeros(groups).index_add_(0, batch.group, members)[batch.group] < 2


def _tails(batch: Batch, unmasked_only: bool) -> Tensor:
    """Column from which a rollout has no baseline, `[B]`: the second-largest count of unmasked tokens of its
    group if its own is the largest and no other's is. A count taken for a column, as verl does."""
    counts = torch.where(_members(batch, unmasked_only), batch.unmasked, -1)
    order = torch.argsort(
        batch.group * (int(counts.max()) + 2 if batch.rollouts else 1) + counts, stable=True
    )
    ends = torch.full_like(counts, torch.iinfo(torch.int64).max)
    if batch.rollouts < 2:
        return ends
    first, second = order[1:], order[:-1]
    last_of_group = torch.ones_like(first, dtype=torch.bool)
    last_of_group[:-1] = batch.group[order[2:]] != batch.group[first[:-1]]
    longest = last_of_group & (batch.group[first] == batch.group[second]) & (counts[first] > counts[second])
    longest &= counts[second] >= 0
    ends[first[longest]] = counts[second][longest]
    return ends


ESTIMATOR = Estimator(
    name="optimal_token_baseline",
    sentence="Scores every token against its siblings at the same position, surprising ones counting more.",
    formula="A_t = G_t − Σ_j G_j,t·W_j,t / (Σ_j W_j,t + ε),  W_t = Σ_{k ≤ t} (1 − 2π_k + Σπ_k²)",
    paper="https://proceedings.mlr.press/v306/li26hy.html",
    needs=("reward", "old_log_probs", "sum_pi_squared"),
    params=TokenBaselineParams,
    run=run,
)
