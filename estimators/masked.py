"""Picking and placing tokens by mask, and sums over the tokens of each rollout.

On the CPU numpy does the boolean indexing and the sums over segments: several times as fast as torch's.
"""

from bisect import bisect_right
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

#: Single-precision sums run over at most this many tokens before they go on in double precision.
BLOCK = 1024
#: Tokens that two passes go over before the next ones.
PASS = 1 << 17


def all_set(mask: Tensor) -> bool:
    """Whether every entry of the bool tensor is set."""
    if mask.device.type == "cpu":
        return int(np.count_nonzero(mask.numpy())) == mask.numel()
    return bool(mask.all())


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


def set_positions(mask: Tensor) -> Tensor:
    """Positions of the set entries of `mask` `[N]`, ascending, int64."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return torch.nonzero(mask).squeeze(1)


def put(target: Tensor, positions: Tensor, source: Tensor, picked: Tensor) -> None:
    """`target[positions] = source[picked]`."""
    if target.device.type == "cpu":
        target.numpy()[positions.numpy()] = np.take(source.numpy(), picked.numpy())
    else:
        target[positions] = source[picked]


def valid_counts(mask: Tensor, offsets: Tensor) -> Tensor:
    """Set entries of `mask` `[N]` per rollout, `[B]` int64."""
    if mask.device.type != "cpu":
        ends = torch.nn.functional.pad(torch.cumsum(mask, 0), (1, 0))[offsets]
        return ends[1:] - ends[:-1]
    counts, array = np.zeros(offsets.shape[0] - 1, dtype=np.int64), mask.numpy()
    width = array.size // max(1, counts.size)
    if array.size and width % 8 == 0 and bool((offsets[1:] - offsets[:-1] == width).all()):
        words = np.ascontiguousarray(array).view(np.uint64)  # eight tokens each, one bit set for each of them
        counts[:] = np.add.reduce(np.bitwise_count(words).reshape(counts.size, -1), axis=1, dtype=np.int64)
    elif array.size > BLOCK * counts.size:  # Long rollouts: one call each is ten times as fast.
        cuts = offsets.tolist()
        counts[:] = [np.count_nonzero(array[a:b]) for a, b in pairwise(cuts)]
    elif array.size:
        live = (offsets[1:] > offsets[:-1]).numpy()
        counts[live] = np.add.reduceat(array.view(np.uint8), offsets.numpy()[:-1][live], dtype=np.int64)
    return torch.from_numpy(counts)


def repeated(values: Tensor, counts: Tensor) -> Tensor:
    """Each entry of `values` `[B]` as many times as `counts` `[B]` says."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts)


def segment_sums(values: Tensor, offsets: Tensor) -> Tensor:
    """Sum of `values` `[N]` over each rollout's tokens, `[B]` float64; 0 for a rollout without tokens."""
    count, tokens = offsets.shape[0] - 1, values.shape[0]
    sums = torch.zeros(count, dtype=torch.float64, device=values.device)
    if not tokens:
        return sums
    lengths = offsets[1:] - offsets[:-1]
    if tokens == count * int(lengths[0]) and bool((lengths == lengths[0]).all()):
        return values.view(count, -1).sum(dim=1).double()
    if values.device.type != "cpu":
        return torch.segment_reduce(values.double(), "sum", lengths=lengths, unsafe=True, initial=0.0)
    live = lengths > 0
    starts = offsets[:-1][live].numpy()
    cuts = np.union1d(starts, np.arange(0, tokens, BLOCK))
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is NaN here as in torch, without a warning.
        parts = np.add.reduceat(values.numpy(), cuts).astype(np.float64)
        sums[live] = torch.from_numpy(np.add.reduceat(parts, np.searchsorted(cuts, starts)))
    return sums


def segment_least(values: Tensor, offsets: Tensor) -> Tensor:
    """Least of `values` `[N]` in each rollout, `[B]`; ∞ where it has none."""
    least = torch.full((offsets.shape[0] - 1,), torch.inf, dtype=values.dtype, device=values.device)
    live = offsets[1:] > offsets[:-1]
    if values.device.type != "cpu":
        owner = torch.arange(least.shape[0], device=values.device).repeat_interleave(
            offsets[1:] - offsets[:-1]
        )
        return least.scatter_reduce_(0, owner, values, "amin")
    if values.numel():
        least[live] = torch.from_numpy(np.minimum.reduceat(values.numpy(), offsets[:-1][live].numpy()))
    return least


def last_index(mask: Tensor, offsets: Tensor) -> Tensor:
    """Position in `[N]` of each rollout's last set entry, `[B]` int64; −1 where there is none."""
    counts = valid_counts(mask, offsets)
    positions = set_positions(mask)
    ends = torch.cumsum(counts, 0)
    found = torch.full_like(counts, -1)
    found[counts > 0] = positions[ends[counts > 0] - 1]
    return found


def on_tokens(per_rollout: Tensor, mask: Tensor, lengths: Tensor, out: Tensor | None = None) -> Tensor:
    """Each rollout's number `[B]` on its unmasked tokens, 0 on masked ones, `[N]`."""
    if out is None:
        out = torch.empty(mask.shape[0], dtype=per_rollout.dtype, device=mask.device)
    count, tokens, bits = lengths.shape[0], mask.shape[0], mask.view(torch.uint8)
    equal = bool(tokens) and bool((lengths == lengths[0]).all())
    ends = [0, *([] if equal else torch.cumsum(lengths, 0).tolist())]
    width, first = tokens // max(count, 1), 0
    while first < count:
        # A few rollouts at a time, so that the second pass finds them in the cache.
        if equal:
            last = min(first + max(1, PASS // width), count)
            span = slice(first * width, last * width)
        else:
            last = min(max(bisect_right(ends, ends[first] + PASS) - 1, first + 1), count)
            span = slice(ends[first], ends[last])
        part = out[span]
        part.copy_(bits[span])
        if equal:
            part.view(last - first, -1).mul_(per_rollout[first:last, None])
        else:
            part.mul_(repeated(per_rollout[first:last], lengths[first:last]))
        first = last
    if not bool(torch.isfinite(per_rollout).all()):
        out.masked_fill_(~mask, 0.0)  # NaN × 0 is NaN.
    return out
