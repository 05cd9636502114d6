"""Memory that a job took and needs no more goes back to the system: a worker lives for weeks."""

import ctypes
import gc
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Return what is free but still held: the C library and Arrow keep it for what may come."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], Any] | None:
    """glibc's malloc_trim; other C libraries have none and keep less."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], Any] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
