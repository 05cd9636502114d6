"""Prompt groups: string ids to dense numbers once, then statistics of one number per rollout."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.moments import by_scope


def factorize(ids: Iterable[Hashable]) -> tuple[Tensor, list[Hashable]]:
    """Dense numbers 0 … G−1 in order of first appearance, `[B]` int64, and the id behind each number.

    Ids are compared as they are: "01" and "1" are two groups, and so are 1 and "1".
    """
    numbers: dict[Hashable, int] = {}
    dense = [numbers.setdefault(each, len(numbers)) for each in ids]
    return torch.tensor(dense, dtype=torch.int64), list(numbers)


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Per group, `[G]` float64. `size` counts all members, `scored` those that the statistics are of."""

    size: Tensor
    scored: Tensor
    mean: Tensor
    m2: Tensor

    def std(self, ddof: int) -> Tensor:
        """√(m2 / (scored − ddof)), `[G]`; NaN where a group has too few scored members."""
        room = self.scored - ddof
        return torch.where(room > 0, self.m2 / room.clamp(min=1), torch.nan).sqrt()


def group_statistics(scores: Tensor, group: Tensor, counted: Tensor | None = None) -> GroupStatistics:
    """Two-pass statistics in float64 of `scores` `[B]` by `group` `[B]` (dense numbers in any order).

    Entries that are not finite, or not `counted` `[B]` bool, count in `size` only.
    """
    groups = int(group.max()) + 1 if group.numel() else 0
    taken = torch.isfinite(scores)
    if counted is not None:
        taken &= counted
    weight = taken.double()
    zeros = torch.zeros_like(scores, dtype=torch.float64)
    scored, mean, m2 = by_scope(scores.double(), zeros, weight, group, groups)
    size = torch.bincount(group, minlength=groups).double()
    return GroupStatistics(size, scored, mean, m2)
