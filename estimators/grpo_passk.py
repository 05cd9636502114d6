"""Pass@k training: only the best response of a group is credited, with what it is ahead of the second best.

    A_best = (s_best − s_second) / (std_g + ε)        0 for all others

Paper: Chen et al. 2025 (Pass@k Training), arXiv:2508.10751. Agrees with verl 0.9.1
(`compute_grpo_passk_outcome_advantage`, convention `grpo_passk/verl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `grpo_passk/verl` refuses them
- who enters a group: scored rollouts with an unmasked token; `grpo_passk/verl` also fully masked ones
- std: of the group, ddof 1; none with `norm_adv_by_std_in_grpo` false
- ε and where: 1e-6 added to std
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, by_size, complete, divided, not_overflown, see, settle
from estimators.estimator import Estimator, Raw
from estimators.parameters import About


@dataclass(frozen=True, slots=True)
class GrpoPasskParams(CentringParams):
    epsilon: Annotated[float, About("ε added to the standard deviation", minimum=0)] = 1e-6
    norm_adv_by_std_in_grpo: Annotated[bool, About("false leaves the difference as it is")] = True


def run(batch: Batch, params: GrpoPasskParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    known = torch.where(seen.counted, seen.scores, -torch.inf)
    lowest = torch.full_like(seen.stats.mean, -torch.inf).to(dtype)
    best = lowest.scatter_reduce(0, seen.group, known, "amax")[seen.group]
    leads = seen.counted & (known == best)
    # Of several best ones none is ahead of the next: they all have 0.
    leaders = torch.zeros_like(seen.stats.mean).index_add_(0, seen.group, leads.double())[seen.group]
    rest = torch.where(leads, -torch.inf, known)
    second = lowest.scatter_reduce(0, seen.group, rest, "amax")[seen.group]
    ahead = torch.where(leads & (leaders == 1) & torch.isfinite(second), seen.scores - second, 0.0)
    if params.norm_adv_by_std_in_grpo:
        ahead = divided(ahead, not_overflown(seen.std(1), seen.spoilt) + params.epsilon)
    if seen.spoilt is not None:
        ahead = torch.where(seen.spoilt, _spoilt(seen, params), ahead)
    return complete(seen, settle(seen, ahead, seen.scores, params), batch, params)


def _spoilt(seen: Seen, params: GrpoPasskParams) -> Tensor:
    """Of groups with a score that is not finite, `[B]`: NaN is the best of all, and there is no std."""
    found = torch.zeros_like(seen.scores)
    assert seen.spoilt is not None
    for members in by_size(seen.group, seen.counted & seen.spoilt):
        rows = seen.scores[members]
        if rows.shape[1] < 2:
            continue
        best, which = torch.topk(rows, 2, dim=1)
        lead = best[:, 0] - best[:, 1]
        found[members.gather(1, which[:, :1])[:, 0]] = (
            lead * torch.nan if params.norm_adv_by_std_in_grpo else lead
        )
    return found


ESTIMATOR = Estimator(
    name="grpo_passk",
    sentence="Credits only the best response of a group, with its lead over the second best.",
    formula="A_best = (s_best − s_second) / (std_g + ε), else 0",
    paper="https://arxiv.org/abs/2508.10751",
    needs=("reward",),
    params=GrpoPasskParams,
    run=run,
)
