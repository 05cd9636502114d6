"""Buffers kept per thread and only ever grown: a fresh tensor costs six times the copy in page faults."""

import threading

import torch
from torch import Tensor

_local = threading.local()


def buffer(name: str, size: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`size` entries of undefined content on the device of `like`, the same memory for the same name."""
    kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = _local.__dict__.setdefault("kept", {})
    key = (name, dtype or like.dtype, like.device)
    found = kept.get(key)
    if found is None or found.shape[0] < size:
        found = torch.empty(size, dtype=key[1], device=like.device)
        kept[key] = found
    return found[:size]
