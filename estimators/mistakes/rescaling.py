"""Constants that turn one set of numbers into another."""

import torch
from torch import Tensor


def proportion(computed: Tensor, recorded: Tensor) -> float | None:
    """The factor by least squares, or None where nothing computed differs from 0."""
    squares = computed.square().sum()
    if not bool(torch.isfinite(squares)) or float(squares) == 0:
        return None
    factor = float((computed * recorded).sum() / squares)
    return factor if factor else None


def distinct(values: Tensor) -> int:
    """How many different numbers there are, to six digits: what a fitted constant has to explain."""
    kept = values[torch.isfinite(values)]
    size = kept.abs().max() if kept.numel() else kept.sum()
    return int(torch.unique((kept / size.clamp(min=1e-300) * 1e6).round()).shape[0])


def shown(value: float) -> str:
    """Six digits, without a trailing zero."""
    return f"{value:.6g}"
