"""A KL penalty that is taken off the advantages of a group estimator instead of the rewards."""

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.masked import repeated
from estimators.moments import of_values
from estimators.rewards import ScoreParams, token_kl
from estimators.to_go import discounted_sums


def with_kl(advantages: Tensor, batch: Batch, params: ScoreParams) -> Raw:
    """One advantage per rollout `[B]`, or, where a KL penalty comes after the comparison, one per token.

    `token` takes each token's own penalty off, `to_go` also those of all later tokens, `centred` adds what a
    token's KL lies below the mean of the batch (and, discounted, what later tokens' does).
    """
    if not params.beta or params.kl_placement == "reward":
        return Raw(advantages, per_token=False)
    kl = token_kl(batch, params).to(advantages.dtype)
    if params.kl_placement == "centred":
        mean = of_values(kl, batch.response_mask).mean
        change = torch.where(batch.response_mask, mean - kl, 0.0) * params.beta
        factor = params.kl_discount_factor
    else:
        change, factor = -params.beta * kl, 1.0 if params.kl_placement == "to_go" else 0.0
    if factor:
        change = discounted_sums(change, batch, factor)
    return Raw(repeated(advantages, batch.lengths) + change, per_token=True)
