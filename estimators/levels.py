"""Rewards normalised before they are used: with levels for mean and spread (AReaL), per token (ROLL, TRL).

x' = (x − mean of its level) / (sd + ε)        sd = √(Σ (x − mean)² / (n − ddof)) around that same mean
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.moments import of_values
from estimators.parameters import About

Level = Literal["batch", "group"]


@dataclass(frozen=True, slots=True)
class LevelNorm:
    """AReaL's `NormConfig`. Levels that are null leave the mean, or the spread, out."""

    mean_level: Annotated[Level | None, About("whose mean is subtracted")] = "group"
    std_level: Annotated[Level | None, About("over what the spread is taken, around that mean")] = "group"
    mean_leave1out: Annotated[bool, About("the mean of the others, without the value itself")] = False
    std_unbiased: Annotated[bool, About("divide by n − 1")] = True
    eps: Annotated[float, About("ε added to the spread", minimum=0)] = 1e-5
    group_size: Annotated[
        int | None, About("groups of so many in the order of the file; null: the groups of the request", 1)
    ] = None


def normalised(scores: Tensor, batch: Batch, norm: LevelNorm) -> Tensor:
    """`scores` `[B]` normalised, float64. Scores that are not finite are in no statistics.

    A group of one has mean x and spread 1, so 0, or x/(1 + ε) where the mean leaves it out.
    """
    groups = batch.group
    if norm.group_size is not None:
        place = batch.index if batch.index is not None else torch.arange(batch.rollouts)
        groups = torch.unique(place.to(batch.group.device) // norm.group_size, return_inverse=True)[1]
    everyone = torch.zeros_like(groups)
    counted = torch.isfinite(scores)
    known = torch.where(counted, scores.double(), 0.0)
    centred = scores.double() - _means(known, counted, everyone, groups, norm)
    if norm.std_level is None:
        return centred
    level = groups if norm.std_level == "group" else everyone
    size = _sums(counted.double(), level)
    squares = _sums(torch.where(counted, centred, 0.0).square(), level)
    room = size - (1.0 if norm.std_unbiased else 0.0)
    std = torch.where(room > 0, (squares / room.clamp(min=1.0)).sqrt(), 1.0)
    return centred / (std + norm.eps)


def _means(known: Tensor, counted: Tensor, everyone: Tensor, groups: Tensor, norm: LevelNorm) -> Tensor:
    if norm.mean_level is None:
        return torch.zeros_like(known)
    level = groups if norm.mean_level == "group" else everyone
    size, total = _sums(counted.double(), level), _sums(known, level)
    if norm.mean_leave1out:
        others = size - counted.double()
        return torch.where(others > 0, (total - known) / others.clamp(min=1.0), 0.0)
    # From a member of the level: a constant one is then centred to exactly 0.
    pivot = torch.zeros_like(known).index_put((level[counted],), known[counted])[level]
    return pivot + _sums(torch.where(counted, known - pivot, 0.0), level) / size.clamp(min=1.0)


def _sums(values: Tensor, level: Tensor) -> Tensor:
    """Sum of `values` `[B]` over the members of each one's level, `[B]`."""
    count = int(level.max()) + 1 if level.numel() else 0
    return values.new_zeros(count).index_add_(0, level, values)[level]


def whitened_rewards(rewards: Tensor, counted: Tensor, shift_mean: bool) -> Tensor:
    """Token rewards `[N]` over √(variance + 1e-8) of the `counted` ones, 0 elsewhere; without the mean, or
    with it put back. Fewer than two counted rewards stay as they are."""
    moments = of_values(rewards, counted)
    if moments.count < 2:
        return torch.where(counted, rewards, 0.0)
    factor = (moments.variance() + 1e-8) ** -0.5
    back = 0.0 if shift_mean else moments.mean
    return torch.where(counted, (rewards - moments.mean) * factor + back, 0.0)
