"""Group policy gradient: centred scores, scaled up by the share of rollouts that scored anything at all.

    A_i = α·(s_i − mean_g) / f_norm        α = B / (number of rollouts whose score is not 0)

Paper: Chu et al. 2025, arXiv:2504.02546. Agrees with verl 0.9.1 (`compute_gpg_outcome_advantage`, convention
`gpg/verl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `gpg/verl` α times the score. A lone scored rollout of a larger group always has 0
- who enters a group: scored rollouts with an unmasked token; `gpg/verl` also fully masked ones. α is of the
  whole batch, so a reward of exactly 0 anywhere changes every advantage
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from estimators.batch import Batch
from estimators.centring import CentringParams, complete, see, settle
from estimators.estimator import Estimator, Raw
from estimators.parameters import About
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class GpgParams(CentringParams):
    f_norm: Annotated[float, About("what every advantage is divided by", minimum=0)] = 1.0


def run(batch: Batch, params: GpgParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    if params.f_norm == 0:
        raise Refused("f_norm is 0, and every advantage is divided by it; give another number.")
    seen = see(batch, params, dtype)
    scored = seen.counted.sum().double()
    alpha = scored / (seen.counted & (seen.scores != 0)).sum().clamp(min=1)
    alpha = alpha.to(dtype)
    centred, alone = alpha * (seen.scores - seen.mean), alpha * seen.scores
    advantages = settle(seen, centred / params.f_norm, alone / params.f_norm, params)
    return complete(seen, advantages, batch, params)


ESTIMATOR = Estimator(
    name="gpg",
    sentence="Centres each response on its siblings and scales all up by the share of scores that are not 0.",
    formula="A_i = α·(s_i − mean_g) / f_norm,  α = B / #{s ≠ 0}",
    paper="https://arxiv.org/abs/2504.02546",
    needs=("reward",),
    params=GpgParams,
    run=run,
)
