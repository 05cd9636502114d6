"""One advantage per rollout, which stands at each of its tokens: drawn without writing it once per token."""

import numpy as np
from numpy.typing import NDArray

CLIP_QUANTILE = 0.98


def even_clip(values: NDArray[np.floating], counts: NDArray[np.int64]) -> float:
    """`token_heatmap.clip_of` of `values` that stand for `counts` tokens each."""
    there = np.isfinite(values) & (counts > 0)
    sizes, counts = np.abs(values[there]), counts[there]
    if not sizes.size:
        return 1.0
    # What is proportionate is so beside the median of the tokens, which few long responses may set.
    live = sizes > 0
    limit = max(1e4, 1e4 * even_quantile(sizes[live], counts[live], 0.5)) if live.any() else np.inf
    sizes, counts = sizes[sizes <= limit], counts[sizes <= limit]
    return even_quantile(sizes, counts, CLIP_QUANTILE) or float(sizes.max()) or 1.0


def even_quantile(values: NDArray[np.floating], counts: NDArray[np.int64], at: float) -> float:
    """`np.quantile(np.repeat(values, counts), at)`."""
    order = np.argsort(values)
    ends = np.cumsum(counts[order])
    place = at * (int(ends[-1]) - 1)
    low = int(np.floor(place))
    near = values[order[np.searchsorted(ends, [low, min(low + 1, int(ends[-1]) - 1)], side="right")]]
    return float(near[0] + (near[1] - near[0]) * (place - low))


def thin_even(
    values: NDArray[np.float32],
    lengths: NDArray[np.int64],
    members: NDArray[np.int64],
    columns: int,
    rows: int,
) -> tuple[NDArray[np.float32], NDArray[np.bool_], int, int]:
    """`token_heatmap.thin` of `values` `[B]` that stand at all of the `lengths` `[B]` tokens."""
    value, length = values[members], lengths[members]
    width = max(1, -(-int(length.max(initial=1)) // columns))
    height = max(1, -(-members.size // rows))
    cells = -(-length // width)
    shape = -(-members.size // height), int(cells.max(initial=1))
    block = np.arange(members.size) // height
    longest = np.zeros(shape[0], np.int64)
    np.maximum.at(longest, block, cells)
    # What ends in a cell also stands in all before it.
    drawn = np.isfinite(value) & (cells > 0)
    place = block[drawn], cells[drawn] - 1
    high, low = np.full(shape, -np.inf, np.float32), np.full(shape, np.inf, np.float32)
    np.maximum.at(high, place, value[drawn])
    np.minimum.at(low, place, value[drawn])
    high = np.maximum.accumulate(high[:, ::-1], axis=1)[:, ::-1]
    low = np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1]
    grid = np.where(high >= -low, high, low)
    known = np.isfinite(grid)
    there = np.arange(shape[1]) < longest[:, None]
    return np.where(known, grid, np.nan).astype(np.float32), there & ~known, width, height
