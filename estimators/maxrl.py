"""Maximum-likelihood RL: each response against the mean of its siblings, in units of that mean, so that rare
successes weigh most.

    A_i = (s_i − mean_g) / (mean_g + ε)

Paper: Tajwar et al. 2026 (Maximum Likelihood Reinforcement Learning), arXiv:2602.02710. Agrees with SkyRL
(`compute_maxrl_advantage`, convention `maxrl/skyrl`) and prime-rl 0.8.0 (`max_rl`, `maxrl/prime-rl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; `maxrl/skyrl` the score itself. A lone scored rollout of a larger group always has 0
- who enters a group: scored rollouts with an unmasked token; in both frameworks also fully masked ones
- std: none; the scale is the group's mean. Where that is negative every sign turns (`maxrl/skyrl`), or the
  whole group has 0 (`maxrl/prime-rl`)
- ε and where: 1e-6 added to the mean; prime-rl none
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from estimators.batch import Batch
from estimators.centring import CentringParams, complete, see, settle
from estimators.estimator import Estimator, Raw
from estimators.parameters import About


@dataclass(frozen=True, slots=True)
class MaxrlParams(CentringParams):
    epsilon: Annotated[float, About("ε added to the mean", minimum=0)] = 1e-6
    nonpositive_mean: Annotated[
        Literal["zero", "divide"],
        About("a group whose mean is not above 0: all its advantages 0, or divided all the same"),
    ] = "zero"


def run(batch: Batch, params: MaxrlParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    divisor = seen.mean + params.epsilon
    usable = divisor > 0 if params.nonpositive_mean == "zero" else divisor != 0
    if params.nonpositive_mean == "zero":
        usable &= seen.mean > 0
    advantages = torch.where(usable, (seen.scores - seen.mean) / divisor, 0.0)
    if seen.spoilt is not None:
        kept = (params.nonpositive_mean == "zero") & (seen.mean <= 0)
        advantages = torch.where(seen.spoilt & ~kept, (seen.scores - seen.mean) / divisor, advantages)
    return complete(seen, settle(seen, advantages, seen.scores, params), batch, params)


ESTIMATOR = Estimator(
    name="maxrl",
    sentence="Scores each response against its siblings' mean, in units of it: rare successes weigh most.",
    formula="A_i = (s_i − mean_g) / (mean_g + ε)",
    paper="https://arxiv.org/abs/2602.02710",
    needs=("reward",),
    params=MaxrlParams,
    run=run,
)
