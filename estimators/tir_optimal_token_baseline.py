"""The optimal token baseline for tool use: positions are counted over the model's own tokens, so that what a
tool answered does not shift a response against its siblings.

    A_n = G_n − B_n        B_n = Σ_j G_j,n·W_j,n / (Σ_j W_j,n + ε)        n: the n-th unmasked token

Paper: Li et al. 2026, The Optimal Token Baseline. Agrees with verl 0.9.1
(`compute_multi_turn_optimal_token_baseline_advantage`, convention `tir_optimal_token_baseline/verl`). W and ρ
as in `optimal_token_baseline`.

**Conventions**

- masked tokens in the recursion: left out of G, W and the count of positions
- value after the last token: 0
- groups of one: G, without a baseline
- who enters a group: rollouts with an unmasked token
- std: none
- ε and where: 1e-8 added to the sum of the weights
- whitening over what: none by default
- what `returns` means: G of the rewards on unmasked tokens
"""

import torch

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.optimal_token_baseline import TokenBaselineParams, against_columns


def run(batch: Batch, params: TokenBaselineParams, dtype: torch.dtype) -> Raw:
    """One advantage per token, positions counted over unmasked tokens."""
    return against_columns(batch, params, dtype, unmasked_only=True)


ESTIMATOR = Estimator(
    name="tir_optimal_token_baseline",
    sentence="The optimal token baseline with positions counted over the model's own tokens, for tool use.",
    formula="A_n = G_n − Σ_j G_j,n·W_j,n / (Σ_j W_j,n + ε),  n counts unmasked tokens",
    paper="https://proceedings.mlr.press/v306/li26hy.html",
    needs=("reward", "old_log_probs", "sum_pi_squared"),
    params=TokenBaselineParams,
    run=run,
)
