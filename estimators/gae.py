"""Generalised advantage estimation: exponentially weighted sums of temporal-difference errors of a critic.

    δ_t = r_t + γ·V_{t+1} − V_t        A_t = δ_t + γλ·A_{t+1}        R_t = A_t + V_t

Paper: Schulman et al. 2016, arXiv:1506.02438. Agrees with verl 0.9.1 (`compute_gae_advantage_return`,
convention `gae/verl`), verl ≤ 0.4 (`gae/verl-0.4`), OpenRLHF 0.11.2, NeMo-RL 0.6.0, AReaL 1.0.4, SkyRL,
ROLL 0.3.0, slime, TRL 1.9 (PPO), torchrl 0.14.1, each under its name, and open-instruct (packed: `cut`).

**Conventions**

- masked tokens in the recursion: `skip` leaves them out (γ and λ decay once per unmasked token; verl,
  NeMo-RL, AReaL), `zero` keeps them as steps of reward 0 and value 0 (OpenRLHF), `plain` with what was
  recorded there (verl ≤ 0.4, SkyRL, ROLL, slime, torchrl), `one_behind` the one behind the last unmasked
  token only (TRL), `cut` as steps that see nothing later (open-instruct)
- value after the last token: 0, also for truncated rollouts; `gae/areal` and `gae/torchrl`: `bootstrap_value`
  of rollouts that were cut off, or did not terminate
- groups of one: nothing is grouped
- who enters a group: nothing is grouped
- std: of whitening only
- ε and where: of whitening only
- whitening over what: none by default; most frameworks over the unmasked tokens of the batch
- what `returns` means: A_t + V_t before whitening, the critic's target; of a λ of its own in NeMo-RL if asked
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.inputs import Inputs
from estimators.layout import Tile, layout_of
from estimators.masked import last_index
from estimators.parameters import About
from estimators.recurrence import gae_tile
from estimators.recurrence_each import gae_tile_each
from estimators.recursion import solved_tiles
from estimators.refused import Refused
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.segments import reached, segmented, without_end
from estimators.workspace import buffer

MaskedTokens = Literal["skip", "zero", "plain", "one_behind", "cut"]


@dataclass(frozen=True, slots=True)
class CriticParams(TokenRewardParams):
    """What every estimator with a critic takes."""

    gamma: Annotated[float, About("γ: discount of a reward one step later", minimum=0, maximum=1)] = 1.0
    masked_tokens: Annotated[
        MaskedTokens,
        About(
            "masked tokens in the recursion: skip, left out; zero, steps of reward and value 0; plain, steps "
            "as recorded; one_behind, as recorded right behind the last unmasked token and zero further on; "
            "cut, steps as recorded that see nothing of later tokens"
        ),
    ] = "skip"
    bootstrap: Annotated[
        Literal["none", "recorded", "no_eos"],
        About(
            "value after the last token: 0; bootstrap_value where it is recorded and the rollout did not "
            "terminate, and after every token next_values where they are; or that of rollouts cut off only"
        ),
    ] = "none"
    without_values: Annotated[
        Literal["refuse", "zero"],
        About("a batch without values: refuse, or zero: as if the critic had said 0 of every token"),
    ] = "refuse"


@dataclass(frozen=True, slots=True)
class GaeParams(CriticParams):
    lam: Annotated[
        float, About("λ: 0 trusts the critic (one-step errors), 1 trusts the rewards", minimum=0, maximum=1)
    ] = 1.0
    gae_lambda_value: Annotated[
        float | None, About("λ of the returns; null: the λ of the advantages", minimum=0, maximum=1)
    ] = None
    gae_lambda_policy: Annotated[
        float | None, About("λ of the advantages where it differs; null: lam", minimum=0, maximum=1)
    ] = None
    length_adaptive_alpha: Annotated[
        float, About("α above 0: λ of the advantages is 1 − 1/max(α·L, 1), L unmasked tokens", minimum=0)
    ] = 0.0


def run(batch: Batch, params: GaeParams, dtype: torch.dtype) -> Raw:
    """Advantages and returns per token; with `skip` a masked token has the next unmasked one's advantage."""
    lam: float | Tensor = _lam(params)
    if params.length_adaptive_alpha:
        lam = 1.0 - 1.0 / (params.length_adaptive_alpha * batch.unmasked.double()).clamp(min=1.0)
    of_returns = params.lam if params.gae_lambda_value is None else params.gae_lambda_value
    found = generalised(batch, params, lam, dtype)
    if isinstance(lam, float) and lam == of_returns:
        return found
    returns = generalised(batch, params, of_returns, dtype).returns
    return Raw(found.advantages, per_token=True, returns=returns)


def sees(batch: Batch, params: GaeParams, dtype: torch.dtype) -> Inputs | None:
    """What the advantages of `run` depend on; not told of λ that depends on the length."""
    if params.length_adaptive_alpha:
        return None
    return inputs(batch, params, _lam(params), dtype)


def _lam(params: GaeParams) -> float:
    return params.lam if params.gae_lambda_policy is None else params.gae_lambda_policy


def inputs(batch: Batch, params: CriticParams, lam: float, dtype: torch.dtype) -> Inputs | None:
    """What the advantages of `generalised` depend on; not told of a recursion that is cut in pieces."""
    if params.masked_tokens == "cut":
        return None
    entering, skips = _entering(batch, params, dtype), params.masked_tokens == "skip"
    return Inputs(entering, (params.gamma, lam), batch.response_mask, skips, batch.offsets)


def _entering(batch: Batch, params: CriticParams, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rewards and values as they enter the recursion, `[N]` each."""
    if batch.values is None:
        if params.without_values == "refuse":
            raise Refused("This estimator needs values, and this batch has none.")
        nothing = torch.zeros(batch.tokens, dtype=dtype, device=batch.scores.device)
        batch = replace(batch, values=nothing)
    assert batch.values is not None
    rewards, values = token_rewards(batch, params, dtype), batch.values
    if params.masked_tokens in ("zero", "one_behind"):
        kept = batch.response_mask if params.masked_tokens == "zero" else reached(batch)
        rewards, values = torch.where(kept, rewards, 0.0), torch.where(kept, values, 0.0)
    if params.bootstrap != "none":
        rewards = _bootstrapped(rewards, batch, params)
    return rewards, values


def generalised(batch: Batch, params: CriticParams, lam: float | Tensor, dtype: torch.dtype) -> Raw:
    """GAE with λ given apart, one for all or one for each rollout `[B]`."""
    rewards, values = _entering(batch, params, dtype)
    pieces = segmented(batch, "behind") if params.masked_tokens == "cut" else batch
    every_token = params.masked_tokens != "skip"
    layout = layout_of(pieces, every_token)
    # Apart, so that one can be let go of without the other.
    advantages, returns = (torch.empty(batch.tokens, dtype=dtype, device=values.device) for _ in range(2))

    def solve(packed: Sequence[Tensor], out: Tensor, tile: Tile) -> None:
        if isinstance(lam, Tensor):
            gae_tile_each(packed[0], packed[1], layout, tile, params.gamma, lam, out)
            return
        targets = buffer("returns", tile.size, advantages)
        gae_tile(packed[0], packed[1], layout, tile, params.gamma, lam, (out, targets))

    if not layout.tiles:
        returns.copy_(values)
    for tile, part in solved_tiles(pieces, every_token, (rewards, values), advantages, solve):
        torch.add(part, values[tile.span], out=returns[tile.span])
    return Raw(advantages, per_token=True, returns=returns)


def _bootstrapped(rewards: Tensor, batch: Batch, params: CriticParams) -> Tensor:
    """γ times the value after the last token, added to the reward of the last token that takes part."""
    if params.bootstrap == "recorded" and batch.next_values is not None:
        return _with_next_values(rewards, batch, batch.next_values, params.gamma)
    if batch.bootstrap_value is None:
        return rewards
    used = torch.isfinite(batch.bootstrap_value)
    if params.bootstrap == "no_eos":
        used = used & without_end(batch)
    elif batch.truncated is not None:
        used = used & batch.truncated
    if batch.terminated is not None:
        used = used & ~batch.terminated
    if params.masked_tokens == "skip":
        last = last_index(batch.response_mask, batch.offsets)
    else:
        last = torch.where(batch.lengths > 0, batch.offsets[1:] - 1, -1)
    used = used & (last >= 0)
    rewards = rewards.clone()
    rewards[last[used]] += (params.gamma * batch.bootstrap_value[used]).to(rewards.dtype)
    return rewards


def _with_next_values(rewards: Tensor, batch: Batch, following: Tensor, gamma: float) -> Tensor:
    """γ times what the recorded value after a token differs from the next token's own (0 behind the last)."""
    assert batch.values is not None
    last = batch.offsets[1:][batch.lengths > 0] - 1
    next_own = torch.cat([batch.values[1:], batch.values[:1]])
    next_own[last] = 0.0
    following = following.to(next_own.dtype).clone()
    if batch.terminated is not None:
        following[(batch.offsets[1:] - 1)[batch.terminated & (batch.lengths > 0)]] = 0.0
    return rewards + gamma * torch.where(torch.isnan(following), 0.0, following - next_own)


ESTIMATOR = Estimator(
    name="gae",
    sentence="Sums the critic's one-step errors over later tokens; λ trades its bias for the rewards' noise.",
    formula="A_t = Σ_k (γλ)^k · (r_{t+k} + γ·V_{t+k+1} − V_{t+k})",
    paper="https://arxiv.org/abs/1506.02438",
    needs=("values", "reward"),
    params=GaeParams,
    run=run,
    sees=sees,
)
