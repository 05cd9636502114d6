"""The one-step temporal-difference error: how much better a token went than the critic expected.

    δ_t = r_t + γ·V_{t+1} − V_t        R_t = δ_t + V_t

Paper: Sutton 1988, Learning to predict by the methods of temporal differences. Agrees with `gae` at λ = 0; no
framework offers it by itself (convention `td_error`).

**Conventions**

- masked tokens in the recursion: as in `gae` (`skip`, `zero`, `plain`)
- value after the last token: 0, also for truncated rollouts
- groups of one: nothing is grouped
- who enters a group: nothing is grouped
- std: of whitening only
- ε and where: of whitening only
- whitening over what: none by default
- what `returns` means: r_t + γ·V_{t+1}, the one-step target
"""

from dataclasses import dataclass

import torch

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.gae import CriticParams, generalised, inputs
from estimators.inputs import Inputs


@dataclass(frozen=True, slots=True)
class TdErrorParams(CriticParams):
    """Nothing of its own."""


def run(batch: Batch, params: TdErrorParams, dtype: torch.dtype) -> Raw:
    """δ per token; masked tokens as in `gae`."""
    return generalised(batch, params, 0.0, dtype)


def sees(batch: Batch, params: TdErrorParams, dtype: torch.dtype) -> Inputs | None:
    """What the advantages of `run` depend on."""
    return inputs(batch, params, 0.0, dtype)


ESTIMATOR = Estimator(
    name="td_error",
    sentence="What happened at one token less what the critic expected there, with nothing of later tokens.",
    formula="δ_t = r_t + γ·V_{t+1} − V_t",
    paper="https://doi.org/10.1007/BF00115009",
    needs=("values", "reward"),
    params=TdErrorParams,
    run=run,
    sees=sees,
)
