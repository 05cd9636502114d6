"""Prompt groups: string ids to dense numbers once, then statistics of one number per rollout."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor

from estimators.moments import values_by_scope


def factorize(ids: Iterable[Hashable]) -> tuple[Tensor, list[Hashable]]:
    """Dense numbers 0 … G−1 in order of first appearance, `[B]` int64, and the id behind each number.

    Ids are compared as they are: "01" and "1" are two groups, and so are 1 and "1".
    """
    every = list(ids)
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    dense = np.fromiter(map(numbers.__getitem__, every), dtype=np.int64, count=len(every))
    return torch.from_numpy(dense), list(numbers)


def integer_ids(ids: Sequence[str | float]) -> Tensor:
    """`factorize` of ids that `int()` reads one and all, as verl's vectorised GRPO takes them: "07" and "7"
    are one group, and so are the numbers 0.25 and 0.75. Where it cannot read one of them ("1e3", "1.2", a
    number beyond 64 bits), or there is none, ids are compared as they are.

    ids  texts, or numbers where the framework has numbers
    """
    try:
        numbers: list[Hashable] = [int(each) for each in ids]
        np.array(numbers, dtype=np.int64)
    except (ValueError, OverflowError):
        return factorize(ids)[0]
    return factorize(numbers)[0]


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
    if bool(taken.all()):
        scored, mean, m2 = values_by_scope(scores.double(), group, groups)
        return GroupStatistics(scored, scored, mean, m2)
    scored, mean, m2 = values_by_scope(scores[taken].double(), group[taken], groups)
    return GroupStatistics(torch.bincount(group, minlength=groups).double(), scored, mean, m2)
