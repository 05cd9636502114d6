"""Group reward-decoupled normalisation: every reward component is standardised inside the group by itself,
and only then are they added up, so that none dominates by its spread.

    z_i,k = (r_i,k − mean_g,k) / (std_g,k + ε)        A = whitened over the batch of Σ_k w_k·z_i,k

Paper: Liu et al. 2026 (GDPO), arXiv:2601.05242. Agrees with verl 0.9.1 (`compute_gdpo_outcome_advantage`,
convention `gdpo/verl`), TRL 1.16.0 (`normalize_then_sum`, `gdpo/trl`) and NeMo-RL 0.6.0 (`gdpo/nemo`).

**Conventions**

- masked tokens in the recursion: there is none; components are of whole rollouts
- value after the last token: no values
- groups of one: 0; `gdpo/verl` the component itself over 1 + ε
- who enters a group: rollouts that have the component; in every framework also fully masked ones
- std: of the group, ddof 1; `gdpo/nemo` of the siblings without the response
- ε and where: 1e-6 added to std; TRL 1e-4; NeMo-RL divides only where std > 0
- whitening over what: none by default; verl over the unmasked tokens of the batch, TRL and NeMo-RL over its
  responses
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch

from estimators.batch import Batch
from estimators.centring import complete, see
from estimators.estimator import Estimator, Raw
from estimators.grpo import StandardParams, standardised
from estimators.parameters import About
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class GdpoParams(StandardParams):
    reward_keys: Annotated[
        tuple[str, ...] | None, About("reward components to use, in this order; null: all of them")
    ] = None
    one_reward: Annotated[
        Literal["fallback", "refuse"],
        About("fewer than two components: standardise the one reward there is, or refuse"),
    ] = "fallback"
    weight_order: Annotated[
        Literal["recorded", "alphabetical"], About("which components a list of weights is for")
    ] = "recorded"


def run(batch: Batch, params: GdpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout."""
    names = _names(batch, params)
    if params.one_reward == "refuse" and len(names) < 2:
        raise Refused(
            f"This convention refuses fewer than two reward components, and the batch has {len(names)}. "
            "Record reward_components, or give one_reward: fallback to standardise the one reward there is."
        )
    plain = replace(params, reward_weights=None, unscored="zero")
    if not names:
        seen = see(batch, replace(params, reward_weights=None), dtype)
        return complete(seen, standardised(seen, params), batch, params)
    total, scored = (
        torch.zeros_like(batch.scores, dtype=dtype),
        torch.zeros_like(batch.group, dtype=torch.bool),
    )
    for name, weight in zip(names, _weights(names, params), strict=True):
        seen = see(batch, plain, dtype, batch.components[name])
        each = torch.where(seen.scored, standardised(seen, params), 0.0)
        # TRL's sum over components leaves out what is NaN.
        total += weight * (each.nan_to_num(0.0) if params.unscored == "zero" else each)
        scored |= seen.scored
    whole = see(batch, plain, dtype, torch.where(scored, total, torch.nan))
    found = complete(whole, total, batch, params)
    return replace(found, apart=~scored if params.unscored == "zero" else None)


def _names(batch: Batch, params: GdpoParams) -> list[str]:
    if params.reward_keys is None:
        names = list(batch.components)
        return sorted(names) if params.weight_order == "alphabetical" else names
    unknown = [name for name in params.reward_keys if name not in batch.components]
    if unknown:
        there = ", ".join(batch.components) or "none"
        raise Refused(f"reward_keys names {unknown[0]!r}, and the recorded components are: {there}.")
    return list(params.reward_keys)


def _weights(names: list[str], params: GdpoParams) -> list[float]:
    weights = params.reward_weights
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, dict):
        unknown = sorted(set(weights) - set(names))
        if unknown:
            raise Refused(f"reward_weights names {unknown[0]!r}; the components are {', '.join(names)}.")
        return [weights.get(name, 0.0) for name in names]
    if len(weights) != len(names):
        raise Refused(
            f"reward_weights has {len(weights)} entries for {len(names)} components ({', '.join(names)})."
        )
    return list(weights)


ESTIMATOR = Estimator(
    name="gdpo",
    sentence="Standardises every reward component inside the group before they are added up.",
    formula="A_i = whiten_batch(Σ_k w_k · (r_{i,k} − mean_{g,k}) / (std_{g,k} + ε))",
    paper="https://arxiv.org/abs/2601.05242",
    needs=("reward",),
    params=GdpoParams,
    run=run,
)
