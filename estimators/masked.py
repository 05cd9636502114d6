"""Picking and placing tokens by mask, and sums over the tokens of each rollout.

On the CPU numpy does the boolean indexing: it is ten times as fast as torch's.
"""

import numpy as np
import torch
from torch import Tensor


def compress(values: Tensor, mask: Tensor | None) -> Tensor:
    """The entries of `values` `[N]` where `mask` `[N]` is set, in order; `values` itself without a mask."""
    if mask is None:
        return values
    if values.device.type == "cpu":
        return torch.from_numpy(values.numpy()[mask.numpy()])
    return values[mask]


def place(target: Tensor, mask: Tensor | None, values: Tensor) -> Tensor:
    """Writes `values` in order into the entries of `target` where `mask` is set; gives `target`."""
    if mask is None:
        target.copy_(values)
    elif target.device.type == "cpu":
        target.numpy()[mask.numpy()] = values.numpy()
    else:
        target[mask] = values.to(target.dtype)
    return target


def valid_counts(mask: Tensor, offsets: Tensor) -> Tensor:
    """Set entries of `mask` `[N]` per rollout, `[B]` int64."""
    running = torch.zeros(mask.shape[0] + 1, dtype=torch.int64, device=mask.device)
    torch.cumsum(mask, 0, out=running[1:])
    ends = running[offsets]
    return ends[1:] - ends[:-1]


def segment_sums(values: Tensor, offsets: Tensor) -> Tensor:
    """Sum of `values` `[N]` over each rollout's tokens, `[B]` float64; 0 for a rollout without tokens."""
    sums = torch.zeros(offsets.shape[0] - 1, dtype=torch.float64, device=values.device)
    live = offsets[1:] > offsets[:-1]
    if not bool(live.any()):
        return sums
    starts = offsets[:-1][live]
    if values.device.type == "cpu":
        part = np.add.reduceat(values.numpy(), starts.numpy(), dtype=np.float64)
        sums[live] = torch.from_numpy(part)
        return sums
    lengths = offsets[1:] - offsets[:-1]
    return torch.segment_reduce(values.double(), "sum", lengths=lengths, unsafe=True, initial=0.0)


def segment_extremes(values: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Least and greatest of `values` `[N]` in each rollout, `[B]` float64; NaN where it has no tokens."""
    live = offsets[1:] > offsets[:-1]
    least = torch.full(live.shape, torch.nan, dtype=torch.float64, device=values.device)
    greatest = least.clone()
    if not bool(live.any()):
        return least, greatest
    if values.device.type == "cpu":
        starts, array = offsets[:-1][live].numpy(), values.numpy()
        least[live] = torch.from_numpy(np.minimum.reduceat(array, starts)).double()
        greatest[live] = torch.from_numpy(np.maximum.reduceat(array, starts)).double()
        return least, greatest
    lengths = (offsets[1:] - offsets[:-1])[live]
    least[live] = torch.segment_reduce(values, "min", lengths=lengths, unsafe=True).double()
    greatest[live] = torch.segment_reduce(values, "max", lengths=lengths, unsafe=True).double()
    return least, greatest


def last_index(mask: Tensor, offsets: Tensor) -> Tensor:
    """Position in `[N]` of each rollout's last set entry, `[B]` int64; −1 where there is none."""
    counts = valid_counts(mask, offsets)
    positions = torch.nonzero(mask).squeeze(1)
    ends = torch.cumsum(counts, 0)
    found = torch.full_like(counts, -1)
    found[counts > 0] = positions[ends[counts > 0] - 1]
    return found
