"""The stages of the estimators that compare rollouts with each other: who is compared, mean and spread of
each group, and what those get who cannot be compared."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.advantage_kl import with_kl
from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.groups import GroupStatistics, group_statistics
from estimators.membership import MembershipParams, last_segments, members_of, of_last_segment
from estimators.parameters import About
from estimators.refused import Refused
from estimators.rewards import rollout_scores, spoilt
from estimators.single import Rounding, by_size, single_statistics

__all__ = ["CentringParams", "Seen", "by_size", "complete", "divided", "not_overflown", "see", "settle"]

_OVERFLOW = (
    "The {} overflow: they are beyond what {} precision holds, and a framework makes 0 or NaN of them. "
    "Rewards of that size are a fault of the reward function; clip or rescale them."
)


@dataclass(frozen=True, slots=True)
class CentringParams(MembershipParams):
    """Who enters a group, and what those get who have nobody to be compared with."""

    singleton: Annotated[
        Literal["zero", "raw", "nan", "refuse"],
        About("a group of one rollout: 0, its score as if mean were 0 and std 1, undefined, or refused"),
    ] = "zero"
    fully_masked: Annotated[
        Literal["exclude", "vote"],
        About("rollouts without an unmasked token: left out of their group's statistics, or counted"),
    ] = "exclude"
    nonfinite: Annotated[
        Literal["leave_out", "spread"],
        About(
            "scores recorded as NaN or infinite: undefined and left out, or counted, so that they spoil what "
            "the framework computes of them. A score that was not recorded is left out either way"
        ),
    ] = "leave_out"
    unscored: Annotated[
        Literal["nan", "zero"],
        About("advantage of a rollout without a score; it is in no statistics either way"),
    ] = "nan"
    rounding: Annotated[
        Rounding, About("single precision only: in whose order mean and spread of a group are summed")
    ] = "verl"
    advantage_clip_low: Annotated[float | None, About("least advantage, before whitening")] = None
    advantage_clip_high: Annotated[float | None, About("greatest advantage, before whitening")] = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is compared, `[B]` each, of the precision of the request.

    scores   NaN where the rollout was not scored
    scored   it has a score
    counted  its score is in the statistics
    group    number of its group
    size     members of its group, several segments of one rollout counted once
    left     it is in no full group, and is taken as it is
    stats    of the counted scores, per group, in float64
    spoilt   whether its group counts a score that is not finite; None: no group does
    rounding in whose order single precision adds up
    """

    scores: Tensor
    scored: Tensor
    counted: Tensor
    group: Tensor
    size: Tensor
    left: Tensor | None
    stats: GroupStatistics
    rounding: Rounding
    spoilt: Tensor | None = None

    @property
    def number(self) -> Tensor:
        """Counted members of each rollout's group, `[B]` float64."""
        return self.stats.scored[self.group]

    @property
    def mean(self) -> Tensor:
        """Mean of its group; NaN-free where the group has none: 0."""
        if self.scores.dtype == torch.float32:
            return single_statistics(self.scores, self.group, self.counted, None, self.rounding)[0]
        return self.stats.mean[self.group]

    def std(self, ddof: int) -> Tensor:
        """Std of its group; NaN where too few members are counted."""
        if self.scores.dtype == torch.float32:
            return single_statistics(self.scores, self.group, self.counted, ddof, self.rounding)[1]
        return self.stats.std(ddof)[self.group]


def see(batch: Batch, params: CentringParams, dtype: torch.dtype, scores: Tensor | None = None) -> Seen:
    """The scores (or the given ones, `[B]`) and groups of the batch as the parameters want them."""
    given = scores is not None
    exact = rollout_scores(batch, params) if scores is None else scores
    scores = exact.to(dtype)
    scored = torch.isfinite(scores)
    whole = bool(scored.all())
    if not whole and params.nonfinite == "spread":
        scored = ~torch.isnan(scores)
        if not given and params.unscored == "nan":
            scored |= spoilt(batch, params)
    group, left = members_of(batch, params)
    counted = scored if params.fully_masked == "vote" else scored & batch.trained
    last = last_segments(batch, group, params)
    counted = counted if last is None else counted & last
    stats = group_statistics(scores, group, counted)
    members = stats.size if last is None else torch.bincount(group[last], minlength=stats.size.shape[0])
    _within(scores, exact, stats)
    odd = None if whole else counted & ~torch.isfinite(scores)
    found = None
    if odd is not None and bool(odd.any()):
        stats, found = _with_odd(stats, scores, group, odd)
    seen = Seen(scores, scored, counted, group, members[group], left, stats, params.rounding, found)
    _check_singletons(seen, params)
    return seen


def _with_odd(
    stats: GroupStatistics, scores: Tensor, group: Tensor, odd: Tensor
) -> tuple[GroupStatistics, Tensor]:
    """The statistics with the scores `odd` `[B]` bool that are not finite, and who has one in the group."""
    number = torch.bincount(group[odd], minlength=stats.size.shape[0]).double()
    # The sum is NaN, or infinite: so is the mean, and nothing is left of the spread.
    mean = torch.zeros_like(stats.mean).index_add(0, group[odd], scores[odd].double())
    some = number > 0
    changed = replace(
        stats,
        scored=stats.scored + number,
        mean=torch.where(some, mean, stats.mean),
        m2=torch.where(some, torch.nan, stats.m2),
    )
    return changed, some[group]


def _check_singletons(seen: Seen, params: CentringParams) -> None:
    single = seen.size == 1
    if params.singleton == "refuse" and bool(single.any()):
        raise Refused(
            f"This convention refuses groups of one rollout, and {int(single.sum())} of the batch's "
            f"{int((seen.stats.size > 0).sum())} groups have one. Give singleton: zero or raw, as you want "
            "them counted."
        )


def settle(seen: Seen, advantages: Tensor, alone: Tensor | float, params: CentringParams) -> Tensor:
    """The advantages `[B]` of those who could be compared, with those of the others: a lone scored rollout of
    a group has 0, a group of one what `singleton` says (`alone`: as if mean were 0 and std 1)."""
    lone = seen.number <= 1
    advantages = torch.where(lone, 0.0, advantages)
    single = lone & (seen.size == 1)
    if params.singleton == "raw":
        advantages = torch.where(single, alone, advantages)
    elif params.singleton == "nan":
        advantages = torch.where(single, torch.nan, advantages)
    elif seen.spoilt is not None and seen.rounding != "skyrl":
        # A score less itself; SkyRL puts 0 there.
        advantages = torch.where(single & seen.spoilt, torch.nan, advantages)
    return advantages if seen.left is None else torch.where(seen.left, seen.scores, advantages)


def complete(seen: Seen, advantages: Tensor, batch: Batch, params: CentringParams) -> Raw:
    """The advantages `[B]` clipped, 0 for those who do not count, copied to the other segments of a rollout;
    per token where a KL penalty comes now. Whitening leaves those without a score out where they have 0."""
    advantages = torch.where(seen.scored & ~seen.counted, 0.0, advantages)
    if params.advantage_clip_low is not None or params.advantage_clip_high is not None:
        advantages = advantages.clamp(params.advantage_clip_low, params.advantage_clip_high)
    advantages = torch.where(seen.scored, advantages, torch.nan if params.unscored == "nan" else 0.0)
    if seen.spoilt is not None and params.unscored == "zero":
        advantages = torch.nan_to_num(advantages, nan=0.0)  # As TRL: infinities become the greatest number.
    advantages = of_last_segment(advantages.to(seen.scores.dtype), batch, seen.group, params)
    raw = replace(with_kl(advantages, batch, params), all_vote=params.fully_masked == "vote")
    if seen.spoilt is not None:
        raw = replace(raw, spoilt=seen.scored & ~torch.isfinite(advantages))
    return replace(raw, apart=~seen.scored) if params.unscored == "zero" else raw


def not_overflown(std: Tensor, spoilt: Tensor | None) -> Tensor:
    """The spread, of any shape. Raises Refused where it is infinite though the scores are finite."""
    beyond = torch.isinf(std) if spoilt is None else torch.isinf(std) & ~spoilt
    if bool(beyond.any()):
        raise Refused(_OVERFLOW.format("squares of the scores", _name(std.dtype)))
    return std


def _within(scores: Tensor, exact: Tensor, stats: GroupStatistics) -> None:
    """Refuses scores that only their precision makes infinite, and finite ones whose sum is not."""
    if scores.dtype != exact.dtype and bool((torch.isinf(scores) & torch.isfinite(exact)).any()):
        raise Refused(_OVERFLOW.format("scores", _name(scores.dtype)))
    if not bool(torch.isfinite(stats.mean).all()):
        raise Refused(_OVERFLOW.format("sums of the scores", _name(scores.dtype)))


def _name(dtype: torch.dtype) -> str:
    return "single" if dtype == torch.float32 else "double"


def divided(centred: Tensor, divisor: Tensor) -> Tensor:
    """`centred` over the divisor, 0 where that is 0 or undefined."""
    return torch.where(divisor > 0, centred / divisor, 0.0)
