"""REINFORCE++: the reward still to come, made comparable over the batch instead of inside a prompt group.

    G_t = r_t + γ·G_{t+1}        A_t = (G_t − mean) / std over the unmasked tokens of the batch

Paper: Hu 2025, arXiv:2501.03262. Agrees with verl 0.9.1 (`compute_reinforce_plus_plus_outcome_advantage`,
convention `reinforce_plus_plus/verl`), verl ≤ 0.8 (`/verl-0.8`), SkyRL (`/skyrl`), OpenRLHF 0.11.2 (estimator
`reinforce`, `/openrlhf`) and, with `masked_tokens: zero` and without whitening, slime's
`get_reinforce_plus_plus_returns`. `/nemo` has no sum over later tokens: see `reinforce_plus_plus_baseline`.

**Conventions**

- masked tokens in the recursion: left out (verl ≥ 0.9: a reward on one is lost), the sum starts anew at each
  (verl ≤ 0.8, SkyRL), or steps of reward 0 that cost one γ (OpenRLHF, slime)
- value after the last token: 0
- groups of one: nothing is grouped
- who enters a group: nothing is grouped
- std: of the whitening: ddof 1 (verl, SkyRL), 0 (OpenRLHF)
- ε and where: 1e-8 under the root (verl, SkyRL), the least the variance can be (OpenRLHF)
- whitening over what: none by default; in every convention the unmasked tokens of the batch
- what `returns` means: G_t before whitening; 0 on masked tokens in verl ≥ 0.9
"""

from dataclasses import dataclass

import torch

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.reward_to_go import ToGoParams, reward_to_go


@dataclass(frozen=True, slots=True)
class ReinforcePlusPlusParams(ToGoParams):
    """Nothing of its own."""


def run(batch: Batch, params: ReinforcePlusPlusParams, dtype: torch.dtype) -> Raw:
    """One advantage per token, to be whitened."""
    found = reward_to_go(batch, params, dtype)
    returns = torch.where(batch.response_mask, found, 0.0) if params.masked_tokens == "skip" else found
    return Raw(found, per_token=True, returns=returns)


ESTIMATOR = Estimator(
    name="reinforce_plus_plus",
    sentence="Credits every token with the reward still to come, in units of its spread over the batch.",
    formula="A_t = (G_t − mean) / std,  G_t = Σ_{k ≥ t} γ^(k−t) · r_k",
    paper="https://arxiv.org/abs/2501.03262",
    needs=("reward",),
    params=ReinforcePlusPlusParams,
    run=run,
)
