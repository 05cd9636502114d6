"""The baseline, scale and singleton stages of estimators that compare the scores of a prompt group."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.groups import GroupStatistics, group_statistics
from estimators.moments import of_values
from estimators.parameters import About
from estimators.rewards import ScoreParams, rollout_scores


@dataclass(frozen=True, slots=True)
class CentringParams(ScoreParams):
    """Who enters a group, and what those get who have nobody to be compared with."""

    singleton: Annotated[
        Literal["zero", "raw"],
        About("a group of one rollout: advantage 0, or its score as if mean were 0 and std 1"),
    ] = "zero"
    fully_masked: Annotated[
        Literal["exclude", "vote"],
        About("rollouts without an unmasked token: left out of their group's statistics, or counted"),
    ] = "exclude"
    unscored: Annotated[
        Literal["nan", "zero"],
        About("advantage of a rollout without a score; it is in no statistics either way"),
    ] = "nan"


@dataclass(frozen=True, slots=True)
class Spread:
    """What a centred score is divided by: the std of its group or of all scores, or nothing."""

    over: Literal["none", "group", "batch"]
    ddof: int = 1
    eps: float = 0.0
    placement: Literal["added", "floor"] = "added"


def group_relative(batch: Batch, params: CentringParams, spread: Spread, dtype: torch.dtype) -> Tensor:
    """(score − group mean) / spread per rollout, `[B]` of `dtype`."""
    scores = rollout_scores(batch, params).to(dtype)
    scored = torch.isfinite(scores)
    counted = scored
    if params.fully_masked == "exclude":
        counted = scored & (batch.unmasked > 0)
    stats = group_statistics(scores, batch.group, counted)
    if dtype == torch.float32:
        mean, std = _float32_statistics(scores, batch.group, counted, spread.ddof)
    else:
        mean, std = stats.mean[batch.group], stats.std(spread.ddof)[batch.group]
    if spread.over == "batch":
        std = torch.full_like(std, _batch_std(scores, counted, spread.ddof))
    advantages = _divided(scores - mean, std, spread)
    advantages = _alone(advantages, scores, stats, batch.group, params, spread)
    advantages = torch.where(scored & ~counted, 0.0, advantages)
    return torch.where(scored, advantages, torch.nan if params.unscored == "nan" else 0.0).to(dtype)


def _divided(centred: Tensor, std: Tensor, spread: Spread) -> Tensor:
    """The scale stage. Where the divisor is 0 or there is no std the result is 0."""
    if spread.over == "none":
        return centred
    divisor = std + spread.eps if spread.placement == "added" else std.clamp(min=spread.eps)
    return torch.where(divisor > 0, centred / divisor, 0.0)


def _alone(
    advantages: Tensor,
    scores: Tensor,
    stats: GroupStatistics,
    group: Tensor,
    params: CentringParams,
    spread: Spread,
) -> Tensor:
    """The singleton stage. A lone scored rollout of a larger group has no baseline either: always 0."""
    lone = stats.scored[group] <= 1
    advantages = torch.where(lone, 0.0, advantages)
    if params.singleton == "zero":
        return advantages
    raw = scores if spread.over == "none" else scores / (1.0 + spread.eps)
    return torch.where(lone & (stats.size[group] == 1), raw, advantages)


def _batch_std(scores: Tensor, counted: Tensor, ddof: int) -> float:
    """Std of all counted scores, not of the centred ones; NaN where there are too few."""
    moments = of_values(scores, counted)
    return float(moments.variance(ddof) ** 0.5)


def _float32_statistics(scores: Tensor, group: Tensor, counted: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    """Mean and std of each rollout's group in float32, `[B]` each, by the same torch calls as the frameworks,
    so that what rounding does to nearly constant groups shows."""
    mean = torch.full_like(scores, torch.nan)
    std = torch.full_like(scores, torch.nan)
    sizes = torch.bincount(group[counted], minlength=int(group.max()) + 1 if group.numel() else 0)
    order = torch.nonzero(counted).squeeze(1)
    order = order[torch.argsort(group[order], stable=True)]
    size_of = sizes[group[order]]
    for size in torch.unique(size_of).tolist():
        members = order[size_of == size].view(-1, size)
        rows = scores[members]
        mean[members] = rows.mean(dim=1, keepdim=True).expand_as(rows)
        if size > ddof:
            std[members] = rows.std(dim=1, correction=ddof, keepdim=True).expand_as(rows)
    return mean, std
