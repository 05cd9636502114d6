"""The reward still to come: what a token can be credited with when there is neither critic nor baseline.

    G_t = r_t + γ·G_{t+1}

Paper: Williams 1992 (REINFORCE), with rewards before an action left out. No framework offers it by itself
(convention `reward_to_go`). Agrees with ROLL 0.3.0 (`reinforce`) where `masked_tokens` is zero, with ROLL's
own whitening of rewards and clip.

**Conventions**

- masked tokens in the recursion: `skip` leaves them out, `zero` keeps them as steps of reward 0, `plain` with
  the reward recorded there, `reset` starts anew: a token in front of a masked one has its own reward only
- value after the last token: 0
- groups of one: nothing is grouped
- who enters a group: nothing is grouped
- std: of whitening only
- ε and where: of whitening only
- whitening over what: none by default
- what `returns` means: G_t before whitening; with `skip` a masked token has the next unmasked one's
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.parameters import About
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.segments import segmented
from estimators.to_go import discounted_sums


@dataclass(frozen=True, slots=True)
class ToGoParams(TokenRewardParams):
    """What every estimator takes that sums later rewards."""

    gamma: Annotated[float, About("γ: discount of a reward one step later", minimum=0, maximum=1)] = 1.0
    masked_tokens: Annotated[
        Literal["skip", "zero", "plain", "reset"],
        About(
            "masked tokens in the sum: skip, left out; zero, steps of reward 0; plain, steps as recorded; "
            "reset, a token in front of one sees nothing of it and of what follows"
        ),
    ] = "skip"


def reward_to_go(batch: Batch, params: ToGoParams, dtype: torch.dtype) -> Tensor:
    """G of every token, `[N]` of `dtype`."""
    rewards = token_rewards(batch, params, dtype).to(dtype)
    if params.masked_tokens == "zero":
        rewards = torch.where(batch.response_mask, rewards, 0.0)
    pieces = segmented(batch, "before") if params.masked_tokens == "reset" else batch
    return discounted_sums(rewards, pieces, params.gamma, every_token=params.masked_tokens != "skip")


def run(batch: Batch, params: ToGoParams, dtype: torch.dtype) -> Raw:
    """One advantage per token: the reward still to come."""
    found = reward_to_go(batch, params, dtype)
    return Raw(found, per_token=True, returns=found)


ESTIMATOR = Estimator(
    name="reward_to_go",
    sentence="Credits every token with the rewards that came at it and after it, later ones discounted.",
    formula="A_t = Σ_{k ≥ t} γ^(k−t) · r_k",
    paper="https://doi.org/10.1007/BF00992696",
    needs=("reward",),
    params=ToGoParams,
    run=run,
)
