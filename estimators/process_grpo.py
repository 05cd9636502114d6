"""Process supervision: the reward of every step, standardised over all steps of the group, summed over the
steps that follow.

    z_t = (r_t − mean_g) / std_g        A_t = Σ_{k ≥ t} γ^{k−t} · z_k        over the steps of the response

Paper: Shao et al. 2024 (DeepSeekMath, section 4.1.3), arXiv:2402.03300. Agrees with atropos
(`compute_grpo_process_supervision_advantages`, convention `process_grpo/atropos`).

**Conventions**

- masked tokens in the recursion: left out; a reward on one counts nowhere
- value after the last token: no values, 0
- groups of one: as larger ones, over the steps of the one rollout
- who enters a group: every step of every rollout of the group, so that long responses decide the statistics
- std: over all steps of the group, ddof 0
- ε and where: none; a group whose std is at most `std_tol` is refused, or 0 where asked for
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw
from estimators.masked import segment_sums
from estimators.membership import MembershipParams, members_of
from estimators.moments import by_scope
from estimators.parameters import About
from estimators.refused import Refused
from estimators.rewards import ScoreParams, recorded_token_rewards, token_kl
from estimators.to_go import discounted_sums
from estimators.tokens import map_tokens, token_moments
from estimators.whitening import Affine


@dataclass(frozen=True, slots=True)
class ProcessGrpoParams(MembershipParams):
    gamma: Annotated[
        float | None, About("γ: discount of a step's reward one step earlier; null: 1", minimum=0, maximum=1)
    ] = None
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 0
    std_tol: Annotated[float, About("std up to which a group counts as constant", minimum=0)] = 1e-8
    constant: Annotated[
        Literal["refuse", "zero"], About("a group of equal step rewards: refused, or 0 for all its steps")
    ] = "refuse"
    steps: Annotated[
        Literal["tokens", "rewarded"],
        About("what a step is: every unmasked token, or every unmasked token with a reward other than 0"),
    ] = "tokens"


def run(batch: Batch, params: ProcessGrpoParams, dtype: torch.dtype) -> Raw:
    """Advantages per token; a masked token has the next unmasked one's."""
    rewards = step_rewards(batch, params, dtype)
    steps = batch
    if params.steps == "rewarded":
        steps = replace(batch, response_mask=batch.response_mask & (rewards != 0))
    affine, constant = _group_affine(rewards, steps, params)
    if params.constant == "refuse" and bool(constant.any()):
        raise Refused(
            f"Process supervision divides by the std of a group's step rewards, and {int(constant.sum())} of "
            f"the groups have equal ones (std at most {params.std_tol:g}). Give constant: zero to let them "
            "have the advantage 0."
        )
    standard = torch.where(steps.response_mask, map_tokens(rewards, affine, steps, True), 0.0)
    gamma = 1.0 if params.gamma is None else params.gamma
    return Raw(discounted_sums(standard, batch, gamma, every_token=False), per_token=True)


def _group_affine(rewards: Tensor, steps: Batch, params: ProcessGrpoParams) -> tuple[Affine, Tensor]:
    """What standardising does to the tokens of each rollout, `[B]`, and which groups are constant."""
    group = members_of(steps, params)[0]
    count, mean, m2 = _group_moments(rewards, steps, group)
    room = (count - params.ddof).clamp(min=1.0)
    std = (m2 / room).sqrt()
    constant = (count > 0) & (std <= params.std_tol)
    factor = torch.where(constant, 0.0, 1.0 / std.clamp(min=1e-300))
    return Affine(mean[group], factor[group], torch.zeros_like(mean)[group]), constant


def _group_moments(rewards: Tensor, steps: Batch, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and squared deviations of the finite rewards of each group's steps."""
    moments = token_moments(rewards, steps, extremes=False)
    groups = int(group.max()) + 1 if group.numel() else 0
    found = by_scope(moments.mean, moments.m2, moments.count, group, groups)
    if bool(torch.isinf(found[2]).any()):
        raise Refused(
            "The squares of the step rewards overflow: their spread is beyond what double precision holds. "
            "Such rewards are a fault of the reward function; clip or rescale them."
        )
    return found


def step_rewards(batch: Batch, params: ScoreParams, dtype: torch.dtype) -> Tensor:
    """The recorded reward of every token, `[N]`, after a KL penalty if one is asked for."""
    rewards = recorded_token_rewards(batch, params.beta != 0)
    if rewards is None:
        raise Refused("This needs a reward per token (token_level_rewards), and the batch has none.")
    rewards = rewards.to(dtype)
    return rewards - params.beta * token_kl(batch, params).to(dtype) if params.beta else rewards


def standardised_steps(
    batch: Batch, params: MembershipParams, dtype: torch.dtype, ddof: int, epsilon: float, floor: bool
) -> Tensor:
    """Every unmasked token's reward over the steps of its group, `[N]`; 0 on masked tokens."""
    rewards, group = step_rewards(batch, params, dtype), members_of(batch, params)[0]
    count, mean, m2 = _group_moments(rewards, batch, group)
    std = (m2 / (count - ddof).clamp(min=1.0)).sqrt()
    divisor = std.clamp(min=epsilon) if floor else std + epsilon
    factor = torch.where(divisor > 0, 1.0 / divisor.clamp(min=1e-300), 0.0)
    affine = Affine(mean[group], factor[group], torch.zeros_like(mean)[group])
    return map_tokens(rewards, affine, batch, zero_masked=True)


def trajectory_scores(batch: Batch, how: str) -> Tensor:
    """The greatest or the mean reward of each rollout's unmasked tokens, `[B]` float64; NaN without one."""
    rewards = recorded_token_rewards(batch, before_kl=False)
    if rewards is None:
        return batch.scores.double()
    moments = token_moments(rewards, batch)
    if how == "max":
        return moments.greatest.double()
    return segment_sums(torch.where(batch.response_mask, rewards, 0.0), batch.offsets) / moments.count


ESTIMATOR = Estimator(
    name="process_grpo",
    sentence="Credits each step with its own and all later step rewards, in units of the group's spread.",
    formula="A_t = Σ_{k ≥ t} γ^{k−t} · (r_k − mean_g) / std_g",
    paper="https://arxiv.org/abs/2402.03300",
    needs=("token_level_rewards",),
    params=ProcessGrpoParams,
    run=run,
)
