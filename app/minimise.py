"""Delta debugging: from a list that shows something to a shorter one that still shows it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")


class Spent(Exception):
    """No check is left: what was found so far is the answer."""


def smallest(items: Sequence[Item], shows: Callable[[list[Item]], bool]) -> list[Item]:
    """A part of `items`, in their order, that still `shows` it and no longer does with any one item less.

    Zeller and Hildebrandt 2002 (ddmin): halves, then ever smaller pieces, alone and left out. Ends early,
    with the shortest part found so far, where `shows` raises Spent. `items` must show it.
    """
    kept, pieces = list(items), 2
    try:
        while len(kept) > 1:
            bounds = [len(kept) * i // pieces for i in range(pieces + 1)]
            parts = [kept[start:end] for start, end in pairwise(bounds)]
            rests = [kept[:start] + kept[end:] for start, end in pairwise(bounds)] if pieces > 2 else []
            found = next((part for part in [*parts, *rests] if part and shows(part)), None)
            if found is not None:
                pieces = 2 if found in parts else max(2, pieces - 1)
                kept = found
            elif pieces >= len(kept):
                break
            else:
                pieces = min(len(kept), 2 * pieces)
    except Spent:
        pass
    return kept


def shortest_head(length: int, shows: Callable[[int], bool]) -> int:
    """The least n for which the first n still show it, by bisection; `length` where Spent comes first."""
    low, high = 0, length
    try:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if shows(middle) else (middle, high)
    except Spent:
        pass
    return high
