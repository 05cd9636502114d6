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
from estimators.layout import CHUNK, Layout, Tile, layout_of
from estimators.masked import place, put, repeated, set_positions
from estimators.parameters import About
from estimators.recurrence import gae_tile
from estimators.refused import Refused
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.workspace import buffer

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
    rewards, values = token_rewards(batch, params, dtype), batch.values
    if params.masked_tokens == "zero":
        rewards = torch.where(batch.response_mask, rewards, 0.0)
        values = torch.where(batch.response_mask, values, 0.0)
    layout = layout_of(batch, every_token=params.masked_tokens != "skip")
    advantages, returns = torch.empty((2, batch.tokens), dtype=dtype, device=values.device)
    if not layout.tiles:
        advantages.zero_()
        returns.copy_(values)
    for tile in layout.tiles:
        r = layout.pack_tile(rewards, tile, buffer("rewards", tile.size, advantages))
        v = layout.pack_tile(values, tile, buffer("values", tile.size, advantages))
        part = advantages[tile.span]
        # As they lie, the advantages need not be moved; else they pass through a buffer.
        found = part if layout.filled is None else buffer("advantages", tile.size, advantages)
        undefined = _undefined(r, v, layout, tile)
        if undefined is not None:
            r, v = r.masked_fill(undefined[0], 0.0), v.masked_fill(undefined[0], 0.0)
        gae_tile(r, v, layout, tile, params.gamma, lam, (found, buffer("returns", tile.size, advantages)))
        if undefined is not None:
            found.masked_fill_(undefined[1], torch.nan)
        if layout.filled is not None:
            _spread(layout.unpack_tile(found, tile), layout, tile, batch, part)
        torch.add(part, values[tile.span], out=returns[tile.span])
    return Raw(advantages, per_token=True, returns=returns)


def _undefined(rewards: Tensor, values: Tensor, layout: Layout, tile: Tile) -> tuple[Tensor, Tensor] | None:
    """Slots that are not finite, and slots that depend on one: it and all before it in its rollout.

    `[slots of the tile]` bool each, or None where all are finite.
    """
    if bool(torch.isfinite(rewards.sum() + values.sum())):
        return None
    broken = ~(torch.isfinite(rewards) & torch.isfinite(values))
    # Broken slots at or behind each slot, less those behind the end of its rollout.
    behind = torch.nn.functional.pad(
        torch.flip(torch.cumsum(torch.flip(broken.long(), (0,)), 0), (0,)), (0, 1)
    )
    slots = layout.chunks[slice(*tile.rollouts)] * CHUNK
    after = repeated(behind[torch.cumsum(slots, 0)], slots)
    return broken, behind[:-1] > after


def _spread(found: Tensor, layout: Layout, tile: Tile, batch: Batch, out: Tensor) -> None:
    """Writes a tile's advantages `found` on its tokens `out`: a token that was left out gets the next
    participating one's, 0 behind the rollout's last one."""
    if layout.member is None:
        out.copy_(found)
        return
    member = layout.member[tile.span]
    place(out, member, found)
    left_out = set_positions(~member)
    if not left_out.numel():
        return
    # Participating tokens before a left-out one: its position less the left-out ones before it.
    following = left_out - torch.arange(left_out.shape[0], device=left_out.device)
    counts = layout.counts[slice(*tile.rollouts)]
    lengths = batch.lengths[slice(*tile.rollouts)]
    ends = repeated(torch.cumsum(counts, 0), lengths - counts)
    following = torch.where(following < ends, following, found.shape[0])
    put(out, left_out, torch.nn.functional.pad(found, (0, 1)), following)


ESTIMATOR = Estimator(
    name="gae",
    sentence="Sums the critic's one-step errors over later tokens; λ trades its bias for the rewards' noise.",
    formula="A_t = Σ_k (γλ)^k · (r_{t+k} + γ·V_{t+k+1} − V_{t+k})",
    paper="https://arxiv.org/abs/1506.02438",
    needs=("values", "reward"),
    params=GaeParams,
    run=run,
)
