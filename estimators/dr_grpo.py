"""GRPO done right: each response against the mean of its siblings, without dividing by their spread.

    A_i = s_i − mean_g        every token of response i carries A_i

Paper: Liu et al. 2025 (Understanding R1-Zero-like training), arXiv:2503.20783. Agrees with verl 0.9.1
(`norm_adv_by_std_in_grpo=False`), TRL 1.16.0 (`scale_rewards="none"`), OpenRLHF 0.11.2, prime-rl 0.8.0,
tinker-cookbook 0.6.1, open-instruct (`centered`), slime and SkyRL, each under its name.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; verl and SkyRL the score itself; OpenRLHF refuses. A lone scored rollout of a larger group
  always has 0
- who enters a group: scored rollouts with an unmasked token; in every framework also fully masked ones
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
from estimators.length_penalty import length_penalty
from estimators.parameters import About


@dataclass(frozen=True, slots=True)
class DrGrpoParams(CentringParams):
    """Nothing of its own but a length penalty."""

    num_output_tokens_weight: Annotated[
        float, About("length penalty: weight of the unmasked tokens over the most in the group")
    ] = 0.0
    num_input_tokens_weight: Annotated[
        float, About("length penalty: weight of prompt and masked tokens over the most in the group")
    ] = 0.0
    num_turns_weight: Annotated[
        float, About("length penalty: weight of the runs of unmasked tokens over the most in the group")
    ] = 0.0


def run(batch: Batch, params: DrGrpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    weights = (
        params.num_output_tokens_weight,
        params.num_input_tokens_weight,
        params.num_turns_weight,
    )
    if any(weights):
        seen = see(batch, params, dtype, seen.scores - length_penalty(seen, batch, weights))
    return complete(seen, settle(seen, seen.scores - seen.mean, seen.scores, params), batch, params)


ESTIMATOR = Estimator(
    name="dr_grpo",
    sentence="Scores each response by how far it lies above its siblings' mean, in units of the reward.",
    formula="A_i = s_i − mean_g",
    paper="https://arxiv.org/abs/2503.20783",
    needs=("reward",),
    params=DrGrpoParams,
    run=run,
)
