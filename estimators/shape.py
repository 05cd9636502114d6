"""The shape of raw advantages: counts, means and squared deviations per rollout: all that whitening sees."""

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.refused import Refused
from estimators.tokens import token_moments
from estimators.whitening import Affine, Whitening, affine_of, rollout_affine, scope_ids

IDENTITY = Affine(*(torch.tensor([x], dtype=torch.float64) for x in (0.0, 1.0, 0.0)))


def response_moments(raw: Raw) -> tuple[Tensor, Tensor, Tensor] | None:
    """(count, mean, m2) `[B]` float64 with every rollout counted once, whatever its mask; None where those
    without an unmasked token have no vote."""
    if raw.per_token or not raw.all_vote:
        return None
    known = torch.isfinite(raw.advantages)
    mean = torch.where(known, raw.advantages.double(), torch.nan)
    return known.double(), mean, torch.where(known, 0.0, torch.nan).double()


class Shape:
    """`count`, `mean`, `m2` `[B]` float64 of each rollout's finite unmasked raw advantages."""

    def __init__(self, batch: Batch, raw: Raw) -> None:
        self.batch = batch
        self.raw = raw

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """(count, mean, m2) over unmasked tokens, `[B]` each; NaN mean and m2 where count is 0."""
        return self._moments(self.batch)

    @cached_property
    def every_token(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same with masked tokens, which hold what the estimator leaves there."""
        return self._moments(replace(self.batch, response_mask=torch.ones_like(self.batch.response_mask)))

    @cached_property
    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same with a 0 for each masked token and for padding to the longest rollout."""
        count, mean, m2 = self.moments
        width = float(self.batch.lengths.max()) if self.batch.rollouts else 0.0
        mean, m2 = mean.nan_to_num(0.0), m2.nan_to_num(0.0)
        cells = torch.full_like(count, width)
        share = count / cells.clamp(min=1)
        return cells, mean * share, m2 + mean.square() * share * (cells - count)

    def _moments(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        values = self.raw.advantages
        if self.raw.per_token:
            found = token_moments(values, batch, extremes=False)
            return found.count, found.mean, found.m2
        count = torch.where(torch.isfinite(values), batch.unmasked, 0).double()
        mean = torch.where(count > 0, values.double(), torch.nan)
        return count, mean, torch.where(count > 0, 0.0, torch.nan).double()

    def whitened(self, setting: Whitening) -> Affine | None:
        """What the setting does to each rollout; None where the batch does not allow it."""
        if setting.scope == "none":
            return IDENTITY
        if setting.scope == "running":
            return None
        voting = response_moments(self.raw) if setting.unit == "response" else None
        count, mean, m2 = voting or self.moments
        try:
            return rollout_affine(mean, m2, count, scope_ids(self.batch, setting.scope), setting)
        except Refused:
            return None

    def whitened_over(self, ids: Tensor, setting: Whitening) -> Affine | None:
        """What the setting does over scopes `ids` `[B]` of our own; None where its squares overflow."""
        count, mean, m2 = self.moments
        try:
            return rollout_affine(mean, m2, count, ids, replace(setting, scope="rank"))
        except Refused:
            return None


def of_all(moments: tuple[Tensor, Tensor, Tensor], setting: Whitening) -> Affine:
    """One map for all, `[1]`, from moments (count, mean, m2) `[B]` that need not be those of the shape."""
    count, mean, m2 = (part[moments[0] > 0] for part in moments)
    total = count.sum(0, keepdim=True)
    centre = (count * mean).sum(0, keepdim=True) / total
    return affine_of(total, centre, (m2 + count * (mean - centre).square()).sum(0, keepdim=True), setting)


def after(first: Affine, moments: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The moments once `first` was done to each rollout."""
    count, mean, m2 = moments
    return count, first.apply(mean), m2 * first.factor.square()


def composed(first: Affine, second: Affine) -> Affine:
    """`second` of `first`, as one map."""
    centre = first.centre - (first.back - second.centre) / first.factor
    return Affine(centre, first.factor * second.factor, second.back + torch.zeros_like(centre))
