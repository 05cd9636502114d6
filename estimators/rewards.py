"""The score stage: the reward of every token, or one score per rollout, from what the batch has recorded."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeGuard

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.kl import Clamp, Penalty, kl_penalty
from estimators.levels import LevelNorm, normalised, whitened_rewards
from estimators.masked import last_index, repeated, segment_sums
from estimators.parameters import About
from estimators.refused import Refused
from estimators.segments import reached, without_end
from estimators.shaping import ShapingParams, shaped


@dataclass(frozen=True, slots=True)
class KlInReward(ShapingParams):
    """A KL penalty taken off the token rewards before anything else. `kl_coef` 0 takes nothing off."""

    kl_coef: Annotated[float, About("β: reward minus β·KL on every unmasked token", minimum=0)] = 0.0
    kl_penalty: Annotated[
        Penalty, About("estimate of the KL of one token: kl = k1, abs, mse = k2, low_var_kl = k3")
    ] = "kl"
    kl_clamp: Annotated[Clamp, About("whose clamps the KL estimate has")] = "verl"
    kl_on_masked: Annotated[bool, About("masked tokens have their KL taken off too")] = False
    use_kl_in_reward: Annotated[bool, About("false: as if kl_coef were 0")] = True

    @property
    def beta(self) -> float:
        """What is taken off: `kl_coef`, or 0 where it is not to be used."""
        return self.kl_coef if self.use_kl_in_reward else 0.0


#: When the KL penalty is taken off: `reward` of the token rewards, before any comparison inside a group; the
#: others of the advantage. `token` each token's own; `to_go` its own and those of all later tokens;
#: `centred` each token's own less the mean over the batch, and of later tokens with `kl_discount_factor`.
Placement = Literal["reward", "token", "to_go", "centred"]


@dataclass(frozen=True, slots=True)
class ScoreParams(KlInReward):
    """Where one score per rollout comes from."""

    kl_placement: Annotated[
        Placement,
        About(
            "where the KL goes: reward, before grouping; token, to_go, centred: off the advantage after it"
        ),
    ] = "reward"
    kl_discount_factor: Annotated[
        float, About("centred KL: discount of later tokens' KL; 0: a token's own only", minimum=0, maximum=1)
    ] = 0.0
    score: Annotated[
        Literal["tokens", "reward"],
        About("tokens: Σ token_level_rewards, masked ones too, else the reward; reward: the reward alone"),
    ] = "tokens"
    reward_weights: Annotated[
        tuple[float, ...] | dict[str, float] | None,
        About(
            "weights of the reward components, by name or in recorded order, or the one of the reward where "
            "there are no components; null: the score as recorded"
        ),
    ] = None


def recorded_token_rewards(batch: Batch, before_kl: bool) -> Tensor | None:
    """The recorded rewards per token, `[N]`: those before a KL penalty where one is to be taken off now."""
    after, before = batch.token_level_rewards, batch.token_level_scores
    first, second = (before, after) if before_kl else (after, before)
    return first if first is not None else second


def token_kl(batch: Batch, params: KlInReward) -> Tensor:
    """KL per token, `[N]` float64: from the log-probs, else as recorded in `kl`. 0 on masked tokens, unless
    they are to have theirs."""
    if batch.old_log_probs is not None and batch.ref_log_probs is not None:
        old, ref = batch.old_log_probs.double(), batch.ref_log_probs.double()
        kl = kl_penalty(old, ref, params.kl_penalty, params.kl_clamp)
    elif batch.kl is not None:
        kl = batch.kl.double()
    else:
        raise Refused(
            "kl_coef needs old_log_probs and ref_log_probs, or kl; record them or set kl_coef to 0."
        )
    return kl if params.kl_on_masked else torch.where(batch.response_mask, kl, 0.0)


def component_scores(batch: Batch, weights: tuple[float, ...] | dict[str, float] | None) -> Tensor:
    """Σ weight·component per rollout, `[B]` float64; a missing component counts 0, all missing gives NaN."""
    names = list(batch.components)
    if not names:
        raise Refused(
            "reward_weights needs reward_components, and this batch has none; leave reward_weights out."
        )
    if isinstance(weights, dict):
        unknown = sorted(set(weights) - set(names))
        if unknown:
            raise Refused(f"reward_weights names {unknown[0]!r}; the components are {', '.join(names)}.")
        chosen = [weights.get(name, 0.0) for name in names]
    else:
        chosen = list(weights) if weights is not None else [1.0] * len(names)
    if len(chosen) != len(names):
        raise Refused(
            f"reward_weights has {len(chosen)} entries for {len(names)} components ({', '.join(names)})."
        )
    table = torch.stack([batch.components[name].double() for name in names], dim=1)
    present = ~torch.isnan(table)
    factors = torch.tensor(chosen, dtype=torch.float64, device=table.device)
    total = torch.where(present, table * factors, 0.0).sum(dim=1)
    return torch.where(present.any(dim=1), total, torch.nan)


def one_weight(weights: tuple[float, ...] | dict[str, float]) -> TypeGuard[tuple[float]]:
    """Whether the weights are those of one reward, which then needs no name."""
    return isinstance(weights, tuple) and len(weights) == 1


def rollout_scores(batch: Batch, params: ScoreParams) -> Tensor:
    """One score per rollout before grouping, `[B]` float64; NaN where the rollout was not scored.

    Components where weights are given or nothing else is recorded; else the sum of the token rewards (masked
    tokens included, as verl does; one that is not finite there is left out); else the recorded reward. Then
    shaped, and less the KL penalty of all tokens.
    """
    scores = shaped(_recorded_scores(batch, params), batch, params)
    if not params.beta or params.kl_placement != "reward":
        return scores
    return scores - params.beta * segment_sums(token_kl(batch, params), batch.offsets)


def _recorded_scores(batch: Batch, params: ScoreParams) -> Tensor:
    tokens = recorded_token_rewards(batch, params.beta != 0)
    bare = tokens is None and not bool(torch.isfinite(batch.scores).any())
    weights = params.reward_weights
    if weights is not None and not batch.components and one_weight(weights):
        return weights[0] * _recorded_scores(batch, replace(params, reward_weights=None))
    if weights is not None or (bare and batch.components):
        return component_scores(batch, weights)
    if params.score == "reward" or tokens is None:
        return batch.scores.double()
    sums, absent = segment_sums(tokens, batch.offsets), batch.lengths == 0
    if not bool(torch.isfinite(sums).all()):
        kept = torch.where(batch.response_mask | torch.isfinite(tokens), tokens, 0.0)
        sums, absent = segment_sums(kept, batch.offsets), absent | _absent(tokens, batch)
    return torch.where(absent, batch.scores.double(), sums)


def spoilt(batch: Batch, params: ScoreParams) -> Tensor:
    """Rollouts whose score is NaN because NaN was recorded, as the reward or on a token; `[B]` bool."""
    none = torch.zeros(batch.rollouts, dtype=torch.bool, device=batch.scores.device)
    tokens = recorded_token_rewards(batch, params.beta != 0)
    if params.score == "reward" or tokens is None or params.reward_weights is not None:
        return none if batch.reward_nan is None else batch.reward_nan
    own = ~_absent(tokens, batch) & (batch.lengths > 0)
    return own if batch.reward_nan is None else own | batch.reward_nan


def _absent(tokens: Tensor, batch: Batch) -> Tensor:
    """Rollouts all of whose token rewards are NaN: the field was not recorded for them. `[B]` bool."""
    missing = torch.isnan(tokens) if bool(torch.isnan(tokens.sum())) else None
    if missing is None:
        return torch.zeros(batch.rollouts, dtype=torch.bool, device=tokens.device)
    return (segment_sums(missing.double(), batch.offsets) == batch.lengths) & (batch.lengths > 0)


@dataclass(frozen=True, slots=True)
class TokenRewardParams(KlInReward):
    """Where the reward of every token comes from, in the order in which it is done."""

    reward_norm: Annotated[
        LevelNorm | None, About("rewards of rollouts normalised over batch or group before they are placed")
    ] = None
    mask_no_eos_with_zero: Annotated[bool, About("reward 0 for rollouts that were cut off")] = False
    score_location: Annotated[
        Literal["last_response", "last_unmasked", "after_last"],
        About(
            "token that gets the reward where no token rewards are recorded; after_last: one place behind "
            "the last unmasked one; last_response, where all rollouts are equally wide: the last unmasked "
            "one, as what follows it is padding"
        ),
    ] = "last_unmasked"
    mask_rewards: Annotated[bool, About("rewards on masked tokens are set to 0")] = False
    whiten_rewards: Annotated[bool, About("token rewards whitened over the batch, zeros included")] = False
    whiten_rewards_shift: Annotated[
        bool, About("false puts the mean back after the rewards were whitened")
    ] = True


def token_rewards(batch: Batch, params: TokenRewardParams, dtype: torch.dtype) -> Tensor:
    """The reward of every token, `[N]`, after the KL penalty. A rollout without token rewards gets its score
    on one token; NaN there where it was not scored."""
    recorded = recorded_token_rewards(batch, params.beta != 0)
    if recorded is None:
        everyone = torch.ones(batch.rollouts, dtype=torch.bool, device=batch.scores.device)
        rewards = _placed(
            torch.zeros(batch.tokens, dtype=dtype, device=batch.scores.device), everyone, batch, params
        )
    else:
        rewards, absent = recorded, _absent(recorded, batch)
        if bool(absent.any()):
            bare = repeated(absent, batch.lengths)
            rewards = _placed(torch.where(bare, 0.0, rewards), absent, batch, params)
    if params.beta:
        rewards = rewards - params.beta * token_kl(batch, params).to(dtype)
    if params.whiten_rewards:
        counted = reached(batch) if params.score_location == "after_last" else batch.response_mask
        rewards = whitened_rewards(rewards, counted, params.whiten_rewards_shift)
    return torch.where(batch.response_mask, rewards, 0.0) if params.mask_rewards else rewards


def prepared_scores(batch: Batch, params: TokenRewardParams) -> Tensor:
    """The score of each rollout as it is placed on a token, `[B]` float64."""
    scores = shaped(batch.scores, batch, params)
    if params.reward_norm is not None:
        scores = normalised(scores, batch, params.reward_norm)
    if params.mask_no_eos_with_zero:
        scores = torch.where(without_end(batch), 0.0, scores)
    return scores


def padded(batch: Batch) -> bool:
    """Whether the rollouts are rows of a padded matrix: several, all equally wide, some ending masked."""
    if batch.rollouts < 2 or not bool((batch.lengths == batch.lengths[0]).all()) or not batch.tokens:
        return False
    return not bool(batch.response_mask[batch.offsets[1:] - 1].all())


def _placed(rewards: Tensor, which: Tensor, batch: Batch, params: TokenRewardParams) -> Tensor:
    """`rewards` with the score of the rollouts `which` `[B]` put on the token that `score_location` names."""
    if params.score_location == "last_response" and not padded(batch):
        position = torch.where(batch.lengths > 0, batch.offsets[1:] - 1, -1)
    else:
        position = last_index(batch.response_mask, batch.offsets)
        if params.score_location == "after_last":
            position += ((position >= 0) & (position + 1 < batch.offsets[1:])).long()
    which = which & (position >= 0)
    rewards[position[which]] = prepared_scores(batch, params)[which].to(rewards.dtype)
    return rewards
