"""Leave-one-out: each response against the mean of its siblings, itself left out, so that the baseline does
not depend on the response that it judges.

    A_i = s_i − mean_{j ≠ i} s_j = n/(n−1) · (s_i − mean_g)

Paper: Ahmadian et al. 2024 (Back to Basics), arXiv:2402.14740. Agrees with verl 0.9.1 (`rloo/verl` and, for
groups of one, `rloo_vectorized/verl`), TRL 1.16.0, OpenRLHF 0.11.2, NeMo-RL 0.6.0 without std, AReaL 1.0.4
(`mean_leave1out`), rLLM and SkyRL, each under its name.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; verl, AReaL and rLLM the score itself; OpenRLHF refuses. A lone scored rollout of a larger
  group always has 0
- who enters a group: scored rollouts with an unmasked token; in every framework also fully masked ones
- std: none
- ε and where: none
- whitening over what: none by default; TRL over the responses of the batch with `normalize_advantages`
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, see, settle
from estimators.estimator import Estimator, Raw
from estimators.single import sum_of_group


@dataclass(frozen=True, slots=True)
class RlooParams(CentringParams):
    """Nothing of its own."""


def run(batch: Batch, params: RlooParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    seen = see(batch, params, dtype)
    advantages = _single(seen) if dtype == torch.float32 else _double(seen)
    found = complete(seen, settle(seen, advantages, seen.scores, params), batch, params)
    if params.unscored != "zero":
        return found
    # A lone scored rollout has 0/0 in TRL: like an unscored one it has 0 and is left out of the z-score.
    return replace(found, apart=~seen.scored | (seen.number <= 1))


def _double(seen: Seen) -> Tensor:
    factor = seen.number / (seen.number - 1.0).clamp(min=1.0)
    return (seen.scores - seen.mean) * factor


def _single(seen: Seen) -> Tensor:
    """The same by each framework's own order of operations."""
    number, others = (
        seen.number.to(seen.scores.dtype),
        (seen.number - 1.0).clamp(min=1.0).to(seen.scores.dtype),
    )
    if seen.rounding == "verl":
        return seen.scores * number / others - seen.mean * number / others
    if seen.rounding == "skyrl":
        return (seen.scores - seen.mean) * (seen.number / (seen.number - 1.0).clamp(min=1.0)).to(number.dtype)
    total = sum_of_group(seen.scores, seen.group, seen.counted, seen.rounding)
    if seen.rounding == "scattered":
        return (number * seen.scores - total) / others
    return seen.scores - (total - seen.scores) / others


ESTIMATOR = Estimator(
    name="rloo",
    sentence="Scores each response by how far it lies above the mean of the others, itself left out.",
    formula="A_i = s_i − mean_{j ≠ i} s_j",
    paper="https://arxiv.org/abs/2402.14740",
    needs=("reward",),
    params=RlooParams,
    run=run,
)
