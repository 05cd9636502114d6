"""Group-relative policy optimisation: each response against the mean of the responses to the same prompt, in
units of their spread.

    A_i = (s_i − mean_g) / (std_g + ε)        every token of response i carries A_i

Paper: Shao et al. 2024 (DeepSeekMath), arXiv:2402.03300. Agrees with verl 0.9.1 (`grpo/verl`, and its
vectorised version `grpo_vectorized/verl`, `/verl-0.7`), TRL 1.16.0 (`grpo/trl-group`, `/trl-batch`,
`/trl-async`), OpenRLHF 0.11.2, NeMo-RL 0.6.0 (`grpo/nemo`, `/nemo-loo`), slime, AReaL 1.0.4 (`grpo/areal`,
`/lite-ppo`), ROLL 0.3.0, open-instruct, rLLM, torchrl 0.14.1 and SkyRL, each under its name.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: 0; verl, SkyRL, rLLM the score itself over 1 + ε; slime, ROLL undefined; OpenRLHF refuses. A
  lone scored rollout of a larger group: always 0
- who enters a group: scored rollouts with an unmasked token; in every framework also fully masked ones. TRL,
  OpenRLHF, slime, AReaL, ROLL and open-instruct group by position: give `group_size` to do the same
- std: of the group, ddof 1; `grpo/trl-batch` of the raw scores of the batch, `grpo/lite-ppo` of the batch
  around the group means, `grpo/nemo-loo` of the siblings without the response; ddof 0 in open-instruct, rLLM
  and trl-async
- ε and where: 1e-6 added to std; TRL 1e-4, AReaL 1e-5, open-instruct and trl-async 1e-8, OpenRLHF 1e-9;
  torchrl's 1e-4 is the least the std can be; NeMo-RL divides only where std > 0
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, divided, not_overflown, see, settle
from estimators.estimator import Estimator, Raw
from estimators.leave_one_out import mean_of_others, one_pass, std_of_others
from estimators.moments import of_values
from estimators.parameters import About
from estimators.process_grpo import standardised_steps, trajectory_scores
from estimators.single import plain_statistics, single_statistics


@dataclass(frozen=True, slots=True)
class StandardParams(CentringParams):
    """How a score is centred and scaled."""

    epsilon: Annotated[float, About("ε beside the standard deviation", minimum=0)] = 1e-6
    norm_adv_by_std_in_grpo: Annotated[bool, About("false only centres, as Dr. GRPO does")] = True
    scale_rewards: Annotated[
        Literal["group", "batch", "none"],
        About("std of the group, std of all scores of the batch, or no division"),
    ] = "group"
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 1
    eps_placement: Annotated[
        Literal["added", "floor"], About("ε added to the std, or the least the std can be")
    ] = "added"
    variance_floor: Annotated[float, About("least variance of a group, before ε is added", minimum=0)] = 0.0
    mean_level: Annotated[
        Literal["group", "batch", "none"], About("whose mean is subtracted; none: no mean")
    ] = "group"
    mean_leave1out: Annotated[bool, About("the mean of the others, without the score itself")] = False
    use_leave_one_out_baseline: Annotated[
        bool, About("mean and std of the siblings, both without the score itself")
    ] = False
    std_around: Annotated[
        Literal["mean", "baseline"],
        About("deviations from the mean of what the std is over, or from the mean that is subtracted"),
    ] = "mean"
    statistics: Annotated[
        Literal["exact", "plain", "single"],
        About(
            "mean and std of a group: exact, so that equal scores have std 0; plain, as numpy adds up and "
            "rounds; or in single precision, as verl's vectorised functions have them"
        ),
    ] = "exact"
    zero_std: Annotated[
        Literal["divide", "keep"],
        About("where the std is 0 or undefined: divide by ε, or leave the score centred only"),
    ] = "divide"


@dataclass(frozen=True, slots=True)
class GrpoParams(StandardParams):
    trajectory_return: Annotated[
        Literal["sum", "max", "mean", "none"],
        About(
            "how token rewards become one score: sum, or the max or mean of the unmasked ones; none: every "
            "token's own reward is standardised, over all tokens of the group"
        ),
    ] = "sum"


def run(batch: Batch, params: GrpoParams, dtype: torch.dtype) -> Raw:
    """One advantage per rollout; per token where each token's own reward is standardised."""
    if params.trajectory_return == "none":
        floor = params.eps_placement == "floor"
        rewards = standardised_steps(batch, params, dtype, params.ddof, params.epsilon, floor)
        return Raw(rewards, per_token=True)
    scores = None if params.trajectory_return == "sum" else trajectory_scores(batch, params.trajectory_return)
    seen = see(batch, params, dtype, scores)
    return complete(seen, standardised(seen, params), batch, params)


def standardised(seen: Seen, params: StandardParams) -> Tensor:
    """(score − baseline) / spread, `[B]`, groups of one included."""
    scaled = params.norm_adv_by_std_in_grpo and params.scale_rewards != "none"
    single = seen.scores.dtype == torch.float32
    if params.use_leave_one_out_baseline or (params.zero_std == "keep" and single):
        baseline, std = _siblings(seen, params)
    else:
        baseline = _baseline(seen, params)
        std = not_overflown(_spread(seen, baseline, params), seen.spoilt) if scaled else seen.scores
    if seen.left is not None:
        baseline = torch.where(seen.left, 0.0, baseline)
        std = torch.where(seen.left & (params.scale_rewards == "group"), 0.0, std)
    centred = seen.scores - baseline
    advantages = _scaled(centred, std, params) if scaled else centred
    if scaled and seen.spoilt is not None and params.zero_std == "divide":
        of_batch = params.scale_rewards == "batch"
        reached = torch.ones_like(seen.spoilt) if of_batch else seen.spoilt
        advantages = torch.where(reached, centred * torch.nan, advantages)
    by_group = params.use_leave_one_out_baseline or params.mean_level == "group"
    if not by_group and not (scaled and params.scale_rewards == "group"):
        return advantages  # Groups do not matter, nor whether a rollout is alone in its own.
    alone = seen.scores / (1.0 + params.epsilon) if scaled else seen.scores
    settled = settle(seen, advantages, alone, params)
    return settled if seen.left is None else torch.where(seen.left, advantages, settled)


def _siblings(seen: Seen, params: StandardParams) -> tuple[Tensor, Tensor]:
    """Baseline and spread as NeMo-RL has them."""
    leave_out = params.use_leave_one_out_baseline
    if seen.scores.dtype == torch.float32:
        return one_pass(seen, leave_out)
    return mean_of_others(seen), std_of_others(seen)


def _baseline(seen: Seen, params: StandardParams) -> Tensor:
    if params.mean_level == "group":
        return mean_of_others(seen) if params.mean_leave1out else _mean_std(seen, params)[0]
    if params.mean_level == "none":
        return torch.zeros_like(seen.scores)
    whole = of_values(seen.scores, seen.counted)
    mean = torch.full_like(seen.scores, whole.mean)
    if not params.mean_leave1out:
        return mean
    return mean - (seen.scores - mean) / max(whole.count - 1, 1)


def _mean_std(seen: Seen, params: StandardParams) -> tuple[Tensor, Tensor]:
    """Of each rollout's group, `[B]`, with the rounding that is asked for."""
    if params.statistics == "plain":
        return plain_statistics(seen.scores, seen.group, seen.counted, params.ddof)
    if params.statistics == "single":
        scores = seen.scores.float()
        found = single_statistics(scores, seen.group, seen.counted, params.ddof, "scattered")
        not_overflown(scores, seen.spoilt)
        return found[0].to(seen.scores.dtype), found[1].to(seen.scores.dtype)
    return seen.mean, seen.std(params.ddof)


def _spread(seen: Seen, baseline: Tensor, params: StandardParams) -> Tensor:
    """Std of the group or of the batch, `[B]`; NaN where too few are counted."""
    if params.std_around == "mean":
        if params.scale_rewards == "group":
            return _mean_std(seen, params)[1]
        whole = of_values(seen.scores, seen.counted)
        return torch.full_like(seen.scores, whole.variance(params.ddof) ** 0.5)
    squares = torch.where(seen.counted, seen.scores - baseline, 0.0).double().square()
    if params.scale_rewards == "group":
        total = torch.zeros_like(seen.stats.mean).index_add_(0, seen.group, squares)[seen.group]
        number = seen.number
    else:
        total, number = squares.sum(), seen.counted.sum().double()
    room = number - params.ddof
    std = torch.where(room > 0, total / room.clamp(min=1.0), torch.nan).sqrt()
    return std.expand(seen.scores.shape).to(seen.scores.dtype)


def _scaled(centred: Tensor, std: Tensor, params: StandardParams) -> Tensor:
    """The scale stage. Where the divisor is 0 or there is no std the result is 0, or the centred score."""
    if params.variance_floor:
        std = std.clamp(min=params.variance_floor**0.5)
    divisor = std + params.epsilon if params.eps_placement == "added" else std.clamp(min=params.epsilon)
    if params.zero_std == "keep":
        return torch.where(std > 0, centred / divisor, centred)
    return divided(centred, divisor)


ESTIMATOR = Estimator(
    name="grpo",
    sentence="Scores each response by how many standard deviations it lies above its siblings.",
    formula="A_i = (s_i − mean_g) / (std_g + ε)",
    paper="https://arxiv.org/abs/2402.03300",
    needs=("reward",),
    params=GrpoParams,
    run=run,
)
