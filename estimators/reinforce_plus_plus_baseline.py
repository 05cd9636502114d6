"""REINFORCE++ with a baseline: each response against the mean of its siblings, then in units of the spread
over the whole batch.

    a_i = s_i − mean_g        A = whitened over the batch's tokens

Paper: Hu et al. 2025, arXiv:2501.03262. Agrees with verl 0.9.1
(`compute_reinforce_plus_plus_baseline_outcome_advantage`), OpenRLHF 0.11.2 (`reinforce_baseline`) and rLLM,
each under its name, and with slime's step before whitening.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; verl the score itself; OpenRLHF refuses. A lone scored rollout of a larger group always
  has 0
- who enters a group: scored rollouts with an unmasked token; in every framework also fully masked ones
- std: of whitening only
- ε and where: of whitening only
- whitening over what: none by default; verl and OpenRLHF over the unmasked tokens of the batch, so that long
  responses decide mean and spread; rLLM over its responses
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from estimators.batch import Batch
from estimators.centring import CentringParams, complete, see, settle
from estimators.estimator import Estimator, Raw
from estimators.parameters import About


@dataclass(frozen=True, slots=True)
class ReinforcePlusPlusBaselineParams(CentringParams):
    minus_baseline: Annotated[bool, About("false leaves the scores as they are")] = True


def run(batch: Batch, params: ReinforcePlusPlusBaselineParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout; per token where a KL penalty comes after the comparison."""
    seen = see(batch, params, dtype)
    if not params.minus_baseline:
        return complete(seen, seen.scores, batch, params)
    return complete(seen, settle(seen, seen.scores - seen.mean, seen.scores, params), batch, params)


ESTIMATOR = Estimator(
    name="reinforce_plus_plus_baseline",
    sentence="Centres each response on its siblings; the spread that it is divided by is that of the batch.",
    formula="A_i = whiten_batch(s_i − mean_g)",
    paper="https://arxiv.org/abs/2501.03262",
    needs=("reward",),
    params=ReinforcePlusPlusBaselineParams,
    run=run,
)
