"""The last batches that were estimated, kept on their device for the next estimate of one of them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, replace

from torch import Tensor

from app.tensors import Loaded
from estimators import Batch


class BatchCache:
    """Batches by key, at most `limit` bytes of them; the least recently used leaves first. Safe for threads.

    A ready batch never changes, so nothing here is ever stale.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: OrderedDict[Hashable, Loaded] = OrderedDict()
        self.sizes: dict[Hashable, int] = {}
        self.lock = threading.Lock()

    def get(self, key: Hashable, device: str, load: Callable[[], Loaded]) -> Loaded:
        """What was kept under `key`, else what `load` gives, moved to the device and kept if it fits."""
        with self.lock:
            if key in self.held:
                self.held.move_to_end(key)
                return self.held[key]
        loaded = load()
        loaded = replace(loaded, batch=loaded.batch.to(device))
        size = size_of(loaded.batch)
        with self.lock:
            if size <= self.limit:
                self.held[key], self.sizes[key] = loaded, size
                self._shrink()
        return loaded

    def _shrink(self) -> None:
        while sum(self.sizes.values()) > self.limit:
            key, _ = self.held.popitem(last=False)
            del self.sizes[key]


def size_of(batch: Batch) -> int:
    """Bytes of the batch's tensors, and as much again for what estimators work out and keep with it."""
    tensors = [value for f in fields(batch) if isinstance(value := getattr(batch, f.name), Tensor)]
    return 2 * sum(t.numel() * t.element_size() for t in [*tensors, *batch.components.values()])
