"""The error that 99 % of the compared tokens do not exceed, exactly or from counts."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def p99(errors: Tensor) -> float:
    if not errors.numel():
        return 0.0
    return float(errors.kthvalue(max(1, -(-errors.numel() * 99 // 100))).values)


def binned(errors: Tensor) -> NDArray[np.int64]:
    return np.bincount(errors.float().numpy().view(np.int32) >> 15, minlength=1 << 16)


def from_bins(bins: NDArray[np.int64], total: int, others: int) -> float:
    """The least error that 99 % of the tokens do not exceed, from counts by the leading 17 bits of float32:
    at most 1 % too large. `others` zeros were counted without being compared."""
    if not total:
        return 0.0
    bins[0] -= others
    place = int(np.searchsorted(np.cumsum(bins), -(-total * 99 // 100)))
    return float(np.int32(((place + 1) << 15) - 1 if place else 0).view(np.float32))


def weighted_p99(errors: Tensor, weight: Tensor) -> float:
    """The least error that 99 % of the tokens do not exceed."""
    if not errors.numel():
        return 0.0
    order = torch.argsort(errors)
    reached = torch.cumsum(weight[order], 0).double() >= 0.99 * float(weight.sum())
    return float(errors[order][reached][0])
