"""The reward that a policy trained by direct preference optimisation stands for, token by token.

    r_t = β·(log π(y_t) − log π_ref(y_t))

Paper: Rafailov et al. 2023, arXiv:2305.18290, and 2024 (From r to Q*), arXiv:2404.12358, for single tokens.
Agrees with no framework's advantages; TRL 1.16.0 logs its sum per response as `rewards/chosen` and
`rewards/rejected` (convention `dpo_implicit_reward`).

**Conventions**

- masked tokens in the recursion: there is none; masked tokens have 0
- value after the last token: no values
- groups of one: they make no pair
- who enters a group: for preference pairs the best and the worst scored rollout of each group; equal scores
  make no pair
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: nothing, there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.every import EveryParams
from estimators.masked import segment_sums
from estimators.parameters import About
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class DpoImplicitRewardParams(EveryParams):
    beta: Annotated[float, About("β: how strongly the policy is held to the reference", minimum=0)] = 0.1


@dataclass(frozen=True, slots=True)
class Pairs:
    """The best and the worst rollout of each group that has two different scores, `[P]` each, int64.

    margin  how much more implicit reward the chosen one has, `[P]` float64; None without a track
    """

    group: Tensor
    chosen: Tensor
    rejected: Tensor
    margin: Tensor | None = None


def run(batch: Batch, params: DpoImplicitRewardParams, dtype: torch.dtype) -> Raw:
    """The implicit reward of every token, `[N]`."""
    if batch.old_log_probs is None or batch.ref_log_probs is None:
        raise Refused("The implicit reward needs old_log_probs and ref_log_probs; this batch lacks them.")
    ratio = (batch.old_log_probs.double() - batch.ref_log_probs.double()) * params.beta
    return Raw(torch.where(batch.response_mask, ratio, 0.0).to(dtype), per_token=True)


def preference_pairs(
    scores: Tensor, group: Tensor, track: Tensor | None = None, batch: Batch | None = None
) -> Pairs:
    """Pairs of `scores` `[B]` by `group` `[B]`; of equal scores the first rollout stands. With the implicit
    rewards `track` `[N]` of the batch also their margins."""
    known = torch.isfinite(scores)
    groups = int(group.max()) + 1 if group.numel() else 0
    best, worst = (_first_extreme(scores, group, known, groups, how) for how in ("amax", "amin"))
    both = (best >= 0) & (worst >= 0)
    numbers = torch.nonzero(both).squeeze(1)
    numbers = numbers[scores[best[numbers]] > scores[worst[numbers]]]
    chosen, rejected = best[numbers], worst[numbers]
    if track is None or batch is None:
        return Pairs(numbers, chosen, rejected)
    sums = segment_sums(torch.where(batch.response_mask, track, 0.0).double(), batch.offsets)
    return Pairs(numbers, chosen, rejected, sums[chosen] - sums[rejected])


def _first_extreme(scores: Tensor, group: Tensor, known: Tensor, groups: int, how: str) -> Tensor:
    """The first rollout with the greatest or least score of each group, `[G]`; −1 where none is scored."""
    worst = -torch.inf if how == "amax" else torch.inf
    values = torch.where(known, scores.double(), worst)
    start = torch.full((groups,), worst, dtype=torch.float64, device=scores.device)
    extreme = start.scatter_reduce(0, group, values, how)
    here = torch.arange(scores.shape[0], device=scores.device)
    holders = torch.where(known & (values == extreme[group]), here, scores.shape[0])
    first = torch.full((groups,), scores.shape[0], dtype=torch.int64, device=scores.device)
    first = first.scatter_reduce(0, group, holders, "amin")
    return torch.where(first < scores.shape[0], first, -1)


ESTIMATOR = Estimator(
    name="dpo_implicit_reward",
    sentence="How much more likely the policy finds each token than the reference does, as a reward.",
    formula="r_t = β·(log π(y_t) − log π_ref(y_t))",
    paper="https://arxiv.org/abs/2305.18290",
    needs=("old_log_probs", "ref_log_probs"),
    params=DpoImplicitRewardParams,
    run=run,
)
