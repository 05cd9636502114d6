"""The aligned layout of the recurrence: each rollout's tokens contiguous, starting at a multiple of 32 slots,
with at least one empty slot behind the last one. Worked out once per batch and mask."""

from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import compress, place, valid_counts

#: Slots in a chunk: the length of the first matrix product. 16 and 64 were both slower.
CHUNK = 32
#: Slots in a tile: small enough for the cache, large enough that the calls do not count.
TILE = 1 << 18


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows that are solved together: chunks start:stop of the layout.

    rows × width is the grid of chunk totals; cell `[C]` int64 is each chunk's place in it.
    """

    start: int
    stop: int
    rows: int
    width: int
    cell: Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """`slots` slots in tiles; `filled` `[slots]` bool marks those that hold a token.

    member   `[N]` bool: tokens that take part, or None for all
    chunks   `[B]` int64: chunks of each rollout, 0 for one without tokens
    """

    member: Tensor | None
    counts: Tensor
    chunks: Tensor
    filled: Tensor
    tiles: tuple[Tile, ...]

    @property
    def slots(self) -> int:
        return int(self.filled.shape[0])

    def pack(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """The participating entries of `values` `[N]` in their slots, `[slots]`; 0 in empty slots."""
        packed = torch.zeros(self.slots, dtype=dtype, device=values.device)
        return place(packed, self.filled, compress(values, self.member).to(dtype))

    def unpack(self, packed: Tensor) -> Tensor:
        """The participating tokens of `packed` `[slots]` in order, without the empty slots."""
        return compress(packed, self.filled)


def layout_of(batch: Batch, every_token: bool) -> Layout:
    """The batch's layout over its unmasked tokens, or over `every_token`; kept with the batch."""
    name = "layout/every" if every_token else "layout/unmasked"
    found = batch.derived.get(name)
    if not isinstance(found, Layout):
        full = every_token or bool(batch.response_mask.all())
        counts = batch.lengths if full else valid_counts(batch.response_mask, batch.offsets)
        found = make_layout(counts, None if full else batch.response_mask)
        batch.derived[name] = found
    return found


def make_layout(counts: Tensor, member: Tensor | None) -> Layout:
    """A layout for rollouts of `counts` `[B]` participating tokens."""
    chunks = torch.where(counts > 0, counts // CHUNK + 1, 0)
    starts = torch.cumsum(chunks, 0) - chunks
    total = int(chunks.sum())
    device = counts.device
    change = torch.zeros(total * CHUNK + 1, dtype=torch.int8, device=device)
    live = counts > 0
    first = starts[live] * CHUNK
    change[first] = 1
    change[first + counts[live]] = -1
    filled = torch.cumsum(change, 0, dtype=torch.int8)[:-1].bool()
    return Layout(member, counts, chunks, filled, _tiles(chunks[live]))


def _tiles(chunks: Tensor) -> tuple[Tile, ...]:
    """Cuts rows of `chunks` `[R]` chunks into tiles whose slots and grid of totals stay in the cache."""
    tiles: list[Tile] = []
    sizes = chunks.tolist()
    limit, first, begin, used, width = TILE // CHUNK, 0, 0, 0, 0
    for row, size in enumerate(sizes):
        wider = max(width, size)
        if row > first and (used + size > limit or (row + 1 - first) * wider > 2 * limit):
            tiles.append(_tile(chunks[first:row], begin, used, width))
            first, begin, used, wider = row, begin + used, 0, size
        used, width = used + size, wider
    if used:
        tiles.append(_tile(chunks[first:], begin, used, width))
    return tuple(tiles)


def _tile(chunks: Tensor, begin: int, used: int, width: int) -> Tile:
    rows = chunks.shape[0]
    ends = torch.cumsum(chunks, 0)
    row = torch.repeat_interleave(torch.arange(rows, device=chunks.device), chunks)
    column = torch.arange(used, device=chunks.device) - (ends - chunks)[row]
    return Tile(begin, begin + used, rows, width, row * width + column)
