"""What is done to the reward of a rollout before anything else: penalties for length, then bias, scale and "
"clip."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.every import EveryParams
from estimators.masked import last_index
from estimators.parameters import About
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class ShapingParams(EveryParams):
    """In the order in which it is done."""

    overlong_tokens: Annotated[
        float | None,
        About("overlong penalty: tokens of the ramp before max_response_length; null: no penalty", 1e-300),
    ] = None
    overlong_penalty_factor: Annotated[float, About("overlong penalty at the end of the ramp", minimum=0)] = (
        1.0
    )
    max_response_length: Annotated[
        float | None, About("overlong penalty: where the ramp ends; null: the longest rollout", minimum=0)
    ] = None
    overlong_capped: Annotated[
        bool, About("overlong penalty: true goes no further than the factor behind the ramp's end")
    ] = False
    stop_properly_penalty_coef: Annotated[
        float | None,
        About(
            "rollouts marked truncated: at least 0 multiplies their reward, also a negative one; below 0 "
            "takes its place; null leaves it"
        ),
    ] = None
    reward_bias: Annotated[float, About("added to the reward of a rollout")] = 0.0
    reward_scaling: Annotated[float, About("times the reward of a rollout, after the bias")] = 1.0
    reward_clip_range: Annotated[tuple[float, float] | None, About("bounds for the reward of a rollout")] = (
        None
    )


def shaped(scores: Tensor, batch: Batch, params: ShapingParams) -> Tensor:
    """`scores` `[B]` after all of it, float64."""
    scores = scores.double()
    if params.overlong_tokens is not None:
        scores = scores - overlong_penalty(batch, params, params.overlong_tokens)
    coefficient = params.stop_properly_penalty_coef
    if coefficient is not None:
        if batch.truncated is None:
            raise Refused("stop_properly_penalty_coef needs truncated, and no rollout of this batch has it.")
        instead = scores * coefficient if coefficient >= 0 else torch.full_like(scores, coefficient)
        scores = torch.where(batch.truncated & torch.isfinite(scores), instead, scores)
    scores = (scores + params.reward_bias) * params.reward_scaling
    return scores if params.reward_clip_range is None else scores.clamp(*params.reward_clip_range)


def overlong_penalty(batch: Batch, params: ShapingParams, ramp: float) -> Tensor:
    """factor · (L − (max − ramp)) / ramp for responses longer than max − ramp, `[B]` float64.

    L counts up to the last unmasked token. DAPO (verl) and AReaL go on beyond the ramp's end, OpenRLHF not.
    """
    last = last_index(batch.response_mask, batch.offsets)
    length = torch.where(last >= 0, last + 1 - batch.offsets[:-1], 0).double()
    longest = params.max_response_length
    if longest is None:
        longest = float(length.max()) if length.numel() else 0.0
    beyond = (length - (longest - ramp)).clamp(min=0.0, max=ramp if params.overlong_capped else None)
    return beyond / ramp * params.overlong_penalty_factor
