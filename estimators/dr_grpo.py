"""GRPO done right: each response against the mean of its siblings, without dividing by their spread.

    A_i = s_i − mean_g        every token of response i carries A_i

Paper: Liu et al. 2025 (Understanding R1-Zero-like training), arXiv:2503.20783. Agrees with verl 0.9.1
(`norm_adv_by_std_in_grpo=False`, convention `dr_grpo/verl`) and TRL 1.16.0 (`scale_rewards="none"`,
`dr_grpo/trl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `dr_grpo/verl` the score itself. A lone scored rollout of a larger group always has 0
- who enters a group: scored rollouts with an unmasked token; `dr_grpo/verl` and TRL also fully masked ones
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: nothing, there is no critic
"""

from dataclasses import dataclass

import torch

from estimators.batch import Batch
from estimators.centring import CentringParams, Spread, group_relative
from estimators.estimator import Estimator, Raw


@dataclass(frozen=True, slots=True)
class DrGrpoParams(CentringParams):
    """Nothing of its own."""


def run(batch: Batch, params: DrGrpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    return Raw(group_relative(batch, params, Spread("none"), dtype), per_token=False)


ESTIMATOR = Estimator(
    name="dr_grpo",
    sentence="Scores each response by how far it lies above its siblings' mean, in units of the reward.",
    formula="A_i = s_i − mean_g",
    paper="https://arxiv.org/abs/2503.20783",
    needs=("reward",),
    params=DrGrpoParams,
    run=run,
)
