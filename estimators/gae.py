"""Generalised advantage estimation: exponentially weighted sums of temporal-difference errors of a critic.

    δ_t = r_t + γ·V_{t+1} − V_t        A_t = δ_t + γλ·A_{t+1}        R_t = A_t + V_t

Paper: Schulman et al. 2016, arXiv:1506.02438. Agrees with verl 0.9.1 (`compute_gae_advantage_return`,
convention `gae/verl`), verl ≤ 0.4 (`gae/verl-0.4`, as SkyRL and slime) and OpenRLHF 0.11.2 (`gae/openrlhf`).

**Conventions**

- masked tokens in the recursion: `skip` leaves them out (γ and λ decay once per unmasked token), `zero` keeps
  them as steps of reward 0 and value 0, `plain` keeps them with what was recorded there
- value after the last token: 0, also for truncated rollouts
- groups of one: nothing is grouped
- who enters a group: nothing is grouped
- std: of whitening only
- ε and where: of whitening only
- whitening over what: none by default; `gae/verl` and `gae/openrlhf` over the unmasked tokens of the batch
- what `returns` means: A_t + V_t before whitening, the critic's target
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.layout import Layout, layout_of
from estimators.masked import compress, place, valid_counts
from estimators.parameters import About
from estimators.recurrence import gae_packed
from estimators.refused import Refused
from estimators.rewards import TokenRewardParams, token_rewards

MaskedTokens = Literal["skip", "zero", "plain"]


@dataclass(frozen=True, slots=True)
class CriticParams(TokenRewardParams):
    """What every estimator with a critic takes."""

    gamma: Annotated[float, About("γ: discount of a reward one step later", minimum=0, maximum=1)] = 1.0
    masked_tokens: Annotated[
        MaskedTokens,
        About("masked tokens in the recursion: left out, steps of reward and value 0, or steps as recorded"),
    ] = "skip"


@dataclass(frozen=True, slots=True)
class GaeParams(CriticParams):
    lam: Annotated[
        float, About("λ: 0 trusts the critic (one-step errors), 1 trusts the rewards", minimum=0, maximum=1)
    ] = 1.0


def run(batch: Batch, params: GaeParams, dtype: torch.dtype) -> Raw:
    """Advantages and returns per token; with `skip` a masked token has the next unmasked one's advantage."""
    return generalised(batch, params, params.lam, dtype)


def generalised(batch: Batch, params: CriticParams, lam: float, dtype: torch.dtype) -> Raw:
    """GAE with λ given apart, for the estimators that fix it."""
    if batch.values is None:
        raise Refused("This estimator needs values, and this batch has none.")
    rewards, values = token_rewards(batch, params, dtype), batch.values.to(dtype)
    if params.masked_tokens == "zero":
        rewards = torch.where(batch.response_mask, rewards, 0.0)
        values = torch.where(batch.response_mask, values, 0.0)
    layout = layout_of(batch, params.masked_tokens != "skip")
    packed_rewards, packed_values = layout.pack(rewards, dtype), layout.pack(values, dtype)
    undefined = _clean(packed_rewards, packed_values, layout)
    advantages, _ = gae_packed(packed_rewards, packed_values, layout, params.gamma, lam)
    if undefined is not None:
        advantages.masked_fill_(undefined, torch.nan)
    spread = _spread(layout.unpack(advantages), layout, batch)
    return Raw(spread, per_token=True, returns=spread + values)


def _clean(rewards: Tensor, values: Tensor, layout: Layout) -> Tensor | None:
    """Sets entries that are not finite to 0 and marks the slots that depend on one, `[slots]`: it and
    all before it in its rollout. None where all are finite."""
    if bool(torch.isfinite(rewards.sum() + values.sum())):
        return None
    broken = ~(torch.isfinite(rewards) & torch.isfinite(values))
    if not bool(broken.any()):
        return None
    rewards.masked_fill_(broken, 0.0)
    values.masked_fill_(broken, 0.0)
    # Broken entries at or behind each slot, less those behind its rollout's end.
    behind = torch.flip(torch.cumsum(torch.flip(broken.long(), (0,)), 0), (0,))
    behind = torch.cat((behind, behind.new_zeros(1)))
    live = layout.chunks > 0
    slots = layout.chunks[live] * 32
    ends = torch.cumsum(slots, 0)
    return behind[:-1] > torch.repeat_interleave(behind[ends], slots)


def _spread(advantages: Tensor, layout: Layout, batch: Batch) -> Tensor:
    """From the participating tokens to all, `[N]`: a token left out gets the next participating one's
    advantage, 0 behind the last one."""
    if layout.member is None:
        return advantages
    member = layout.member
    out = torch.empty(batch.tokens, dtype=advantages.dtype, device=advantages.device)
    place(out, member, advantages)
    ordinal = compress(torch.cumsum(member, 0), ~member)
    last = torch.cumsum(valid_counts(member, batch.offsets), 0)
    end = torch.repeat_interleave(last, batch.lengths - layout.counts)
    padded = torch.cat((advantages, advantages.new_zeros(1)))
    place(out, ~member, padded[torch.where(ordinal < end, ordinal, advantages.shape[0])])
    return out


ESTIMATOR = Estimator(
    name="gae",
    sentence="Sums the critic's one-step errors over later tokens; λ trades its bias for the rewards' noise.",
    formula="A_t = Σ_k (γλ)^k · (r_{t+k} + γ·V_{t+k+1} − V_{t+k})",
    paper="https://arxiv.org/abs/1506.02438",
    needs=("values", "reward"),
    params=GaeParams,
    run=run,
)
