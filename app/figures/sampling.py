"""Which of many points a figure draws: the same ones each time, spread evenly."""

import numpy as np
from numpy.typing import NDArray


def evenly(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Up to `most` of them, evenly spaced, the first and the last included."""
    if places.size <= most:
        return places
    return places[np.linspace(0, places.size - 1, most).round().astype(np.int64)]


def first_of(special: NDArray[np.int64], rest: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """`special` places up to `most`, the rest up to `most` in all but at least a quarter of it; sorted."""
    kept = evenly(special, most)
    return np.sort(np.concatenate([kept, evenly(rest, max(most - kept.size, most // 4))]))
