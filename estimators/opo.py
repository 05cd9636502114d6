"""On-policy optimisation with the baseline of least variance: the mean of the group weighted by length.

    A_i = s_i − Σ_j L_j·s_j / Σ_j L_j        L_j unmasked tokens of response j

Paper: Hao et al. 2025 (On-Policy RL with Optimal Reward Baseline), arXiv:2505.23585. Agrees with verl 0.9.1
(`compute_opo_outcome_advantage`, convention `opo/verl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `opo/verl` the score itself. A lone scored rollout of a larger group always has 0
- who enters a group: scored rollouts, by their unmasked tokens: one without any has no weight
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, see, settle
from estimators.estimator import Estimator, Raw
from estimators.single import sum_of_group


@dataclass(frozen=True, slots=True)
class OpoParams(CentringParams):
    """Nothing of its own."""


def run(batch: Batch, params: OpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    weight = torch.where(seen.counted, batch.unmasked, 0).double()
    if dtype == torch.float32 or seen.spoilt is not None:
        advantages = _plain(seen, weight.to(dtype))
        return complete(seen, settle(seen, advantages, seen.scores, params), batch, params)
    # From the group's mean: a constant group then has advantages that are exactly 0.
    mean = seen.stats.mean[seen.group]
    away = torch.where(seen.counted, seen.scores.double() - mean, 0.0)
    none = torch.zeros_like(seen.stats.mean)
    total = none.index_add(0, seen.group, weight)
    shift = none.index_add(0, seen.group, weight * away) / total.clamp(min=1.0)
    advantages = (seen.scores.double() - mean - shift[seen.group]).to(dtype)
    return complete(seen, settle(seen, advantages, seen.scores, params), batch, params)


def _plain(seen: Seen, weight: Tensor) -> Tensor:
    """As verl sums up each group, in the precision of the scores."""
    weighted = weight * torch.where(seen.counted, seen.scores, 0.0)
    total, length = (
        sum_of_group(part, seen.group, seen.counted, seen.rounding) for part in (weighted, weight)
    )
    return seen.scores - total / length.clamp(min=1.0)


ESTIMATOR = Estimator(
    name="opo",
    sentence="Scores each response by how far it lies above its siblings' mean, long ones weighing more.",
    formula="A_i = s_i − Σ_j L_j·s_j / Σ_j L_j",
    paper="https://arxiv.org/abs/2505.23585",
    needs=("reward",),
    params=OpoParams,
    run=run,
)
