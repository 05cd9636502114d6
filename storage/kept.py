"""What was read or computed lately, kept in memory for the next request."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key, at most `most` of them, or of what `weight` says each is; the least recently used leaves
    first. Safe for threads. Only for what never changes under its key: nothing here is looked up again."""

    def __init__(self, most: int, weight: Callable[[V], int] = lambda value: 1) -> None:
        self.most, self.weight = most, weight
        self.held: OrderedDict[K, V] = OrderedDict()
        self.lock = threading.Lock()

    def among(self, keys: Iterable[K]) -> dict[K, V]:
        """Those of the keys that are kept."""
        found = {}
        with self.lock:
            for key in keys:
                if key in self.held:
                    self.held.move_to_end(key)
                    found[key] = self.held[key]
        return found

    def keep(self, new: Mapping[K, V]) -> None:
        with self.lock:
            self.held.update(new)
            total = sum(map(self.weight, self.held.values()))
            while total > self.most:
                total -= self.weight(self.held.popitem(last=False)[1])

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under the key, else what `make` gives, which is kept from now on."""
        found = self.among([key])
        if key not in found:
            found = {key: make()}
            self.keep(found)
        return found[key]
