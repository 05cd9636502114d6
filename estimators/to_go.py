"""Discounted sums of what comes later in a rollout: G_t = x_t + γ·G_{t+1}."""

from collections.abc import Sequence

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.layout import Tile
from estimators.recurrence import solve_tile
from estimators.recursion import solved_tiles


def discounted_sums(values: Tensor, batch: Batch, gamma: float, every_token: bool = True) -> Tensor:
    """G `[N]` of `values` `[N]`, of their dtype. NaN where a later value of the rollout is not finite.

    Without `every_token` masked tokens are left out, and each has the next unmasked one's sum, 0 at the end.
    """
    found = torch.empty_like(values)

    def solve(packed: Sequence[Tensor], out: Tensor, tile: Tile) -> None:
        solve_tile(packed[0], out, tile, gamma)

    for _ in solved_tiles(batch, every_token, (values,), found, solve):
        pass
    return found
