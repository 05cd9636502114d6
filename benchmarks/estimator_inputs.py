"""Batches of the sizes that the estimators are measured at, and the floor that they are measured against."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from estimators import Batch

SIZES = {"S": (64, 512), "M": (1024, 4096), "L": (8192, 2048), "X": (256, 32768)}
Row = dict[str, Any]


def masks(rollouts: int, width: int, half: bool, seed: int = 7) -> torch.Tensor:
    """All tokens valid; or ragged ends and tool output masked in runs of 32 … 128, half of it valid."""
    if not half:
        return torch.ones(rollouts, width, dtype=torch.bool)
    random = np.random.default_rng(seed)
    mask = np.zeros((rollouts, width), dtype=bool)
    for row in mask:
        end = int(random.integers(int(0.39 * width), width + 1))
        row[:end] = True
        at = int(random.integers(16, 256))
        while at < end:
            run = int(random.integers(32, 129))
            row[at : at + run] = False
            at += run + int(random.integers(80, 330))
    return torch.from_numpy(mask)


def padded(rollouts: int, width: int, half: bool, dtype: torch.dtype = torch.float32) -> tuple[Batch, Row]:
    """The batch, every cell of the padded matrix one of its tokens, and the same for verl."""
    generator = torch.Generator().manual_seed(7)
    rewards, values = (torch.randn(rollouts, width, generator=generator, dtype=dtype) for _ in range(2))
    mask = masks(rollouts, width, half)
    batch = Batch(
        torch.arange(rollouts + 1) * width,
        mask.view(-1),
        torch.arange(rollouts) // 8,
        torch.zeros(rollouts, dtype=torch.float64),
        token_level_rewards=rewards.view(-1),
        values=values.view(-1),
    )
    return batch, {"token_level_rewards": rewards, "values": values, "response_mask": mask.long()}


def copy_of(amount: float) -> Callable[[], object]:
    """The floor: reading half of `amount` bytes and writing the other half."""
    source = torch.ones(max(1, int(amount / 8)))
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
