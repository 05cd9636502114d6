"""Scores standardised over the whole batch, whatever prompt they answer.

    A_i = (s_i − mean_batch) / (std_batch + ε)

Agrees with rLLM (`calculate_prpo_advantages`, convention `batch_z/rllm`), AReaL 1.0.4 (`reward_norm`
batch/batch, `batch_z/areal`) and ROLL 0.3.0 (`reward_norm` batch/batch, `batch_z/roll`). Paper: Hu et al.
2025 (REINFORCE++), arXiv:2501.03262, argues for the batch as scope.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: nothing is grouped
- who enters a group: nothing is grouped; scored rollouts with an unmasked token enter the batch's statistics,
  in the frameworks also fully masked ones
- std: of the batch, ddof 1; rLLM 0
- ε and where: 1e-6 added to std; AReaL 1e-5
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, divided, not_overflown, see
from estimators.estimator import Estimator, Raw
from estimators.membership import places
from estimators.moments import of_values
from estimators.parameters import About
from estimators.single import KERNELS


@dataclass(frozen=True, slots=True)
class BatchZParams(CentringParams):
    epsilon: Annotated[float, About("ε added to the standard deviation", minimum=0)] = 1e-6
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 1


def run(batch: Batch, params: BatchZParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    whole = of_values(seen.scores, seen.counted)
    if seen.spoilt is not None and bool(seen.spoilt.any()):
        return complete(seen, torch.full_like(seen.scores, torch.nan), batch, params)
    if dtype == torch.float32:
        return complete(seen, _single(seen, batch, params), batch, params)
    std = not_overflown(seen.scores.new_tensor([whole.variance(params.ddof) ** 0.5]), None)
    divisor = float(std[0]) + params.epsilon
    scale = 1.0 / divisor if divisor > 0 else 0.0
    return complete(seen, (seen.scores - whole.mean) * scale, batch, params)


def _single(seen: Seen, batch: Batch, params: BatchZParams) -> Tensor:
    """By torch's mean and std of all scores in the order of the file, in single precision."""
    every = seen.scores[torch.argsort(places(batch))][seen.counted[torch.argsort(places(batch))]]
    if every.numel() <= params.ddof:
        return torch.zeros_like(seen.scores)
    mean, std = KERNELS["verl"](every[None], params.ddof)
    return divided(seen.scores - mean, not_overflown(std, None) + params.epsilon)


ESTIMATOR = Estimator(
    name="batch_z",
    sentence="Scores each response by how many standard deviations it lies above the batch mean.",
    formula="A_i = (s_i − mean_batch) / (std_batch + ε)",
    paper="https://arxiv.org/abs/2501.03262",
    needs=("reward",),
    params=BatchZParams,
    run=run,
)
