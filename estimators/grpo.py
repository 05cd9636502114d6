"""Group-relative policy optimisation: each response against the mean of the responses to the same prompt, in
units of their spread.

    A_i = (s_i − mean_g) / (std_g + ε)        every token of response i carries A_i

Paper: Shao et al. 2024 (DeepSeekMath), arXiv:2402.03300. Agrees with verl 0.9.1
(`compute_grpo_outcome_advantage`, convention `grpo/verl`) and TRL 1.16.0 (`scale_rewards` "group" and
"batch", conventions `grpo/trl-group` and `grpo/trl-batch`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `grpo/verl` the score itself over 1 + ε. A lone scored rollout of a larger group: always 0
- who enters a group: scored rollouts with an unmasked token; `grpo/verl` and TRL also fully masked ones
- std: of the group, ddof 1; `grpo/trl-batch` of the raw scores of the batch
- ε and where: 1e-6 added to std; TRL 1e-4
- whitening over what: none by default
- what `returns` means: nothing, there is no critic
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from estimators.batch import Batch
from estimators.centring import CentringParams, Spread, group_relative
from estimators.estimator import Estimator, Raw
from estimators.parameters import About


@dataclass(frozen=True, slots=True)
class GrpoParams(CentringParams):
    epsilon: Annotated[float, About("ε beside the standard deviation", minimum=0)] = 1e-6
    norm_adv_by_std_in_grpo: Annotated[bool, About("false only centres, as Dr. GRPO does")] = True
    scale_rewards: Annotated[
        Literal["group", "batch", "none"],
        About("std of the group, std of all scores of the batch, or no division"),
    ] = "group"
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 1
    eps_placement: Annotated[
        Literal["added", "floor"], About("ε added to the std, or the least the std can be")
    ] = "added"


def run(batch: Batch, params: GrpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    over = params.scale_rewards if params.norm_adv_by_std_in_grpo else "none"
    spread = Spread(over, params.ddof, params.epsilon, params.eps_placement)
    return Raw(group_relative(batch, params, spread, dtype), per_token=False)


ESTIMATOR = Estimator(
    name="grpo",
    sentence="Scores each response by how many standard deviations it lies above its siblings.",
    formula="A_i = (s_i − mean_g) / (std_g + ε)",
    paper="https://arxiv.org/abs/2402.03300",
    needs=("reward",),
    params=GrpoParams,
    run=run,
)
