"""The aligned layout of the recurrence: each rollout's tokens contiguous, starting at a multiple of 32 slots,
with at least one empty slot behind the last one. Worked out once per batch and mask."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import all_set, compress, place, repeated, valid_counts

#: Slots in a chunk: the length of the first matrix product. 16 and 64 were both slower.
CHUNK = 32
#: Slots in a tile: small enough for the cache, large enough that the calls do not count.
TILE = 1 << 18
#: The same on other devices, where calls cost more than caches save.
TILE_ON_DEVICE = 1 << 25


@dataclass(frozen=True, slots=True)
class Tile:
    """Whole rollouts that are worked on together: their tokens, and their slots, are one span each.

    rollouts       span of rollouts, first and behind the last
    chunks         span of chunks
    tokens         span of tokens in the batch, masked ones included
    rows, width    the grid of chunk totals: a rollout's chunks in a row of it
    cell, chunk    `[C]` place of each chunk in the grid and `[rows·width]` chunk in each place, C where there
                   is none; both None where the grid is full and the chunks lie in it in order
    """

    rollouts: tuple[int, int]
    chunks: tuple[int, int]
    tokens: tuple[int, int]
    rows: int
    width: int
    cell: Tensor | None
    chunk: Tensor | None

    @property
    def slots(self) -> slice:
        return slice(self.chunks[0] * CHUNK, self.chunks[1] * CHUNK)

    @property
    def span(self) -> slice:
        return slice(*self.tokens)

    @property
    def size(self) -> int:
        return (self.chunks[1] - self.chunks[0]) * CHUNK


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the participating tokens of a batch lie.

    member   `[N]` bool: tokens that take part, or None for all
    counts   `[B]` int64: participating tokens of each rollout
    chunks   `[B]` int64: chunks of each rollout, 0 for one without tokens
    filled   `[slots]` bool: slots that hold a token; None where all do: rollouts of one length, a multiple of
             32, with no token left out, are worked on as they lie, without the empty slot behind
    """

    member: Tensor | None
    counts: Tensor
    chunks: Tensor
    slots: int
    filled: Tensor | None
    tiles: tuple[Tile, ...]

    def pack(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """The participating entries of `values` `[N]` in their slots, `[slots]`; 0 in empty slots.

        `values` itself where the layout is that of the batch.
        """
        if self.filled is None:
            return values.to(dtype)
        packed = torch.zeros(self.slots, dtype=dtype, device=values.device)
        return place(packed, self.filled, compress(values, self.member).to(dtype))

    def pack_tile(self, values: Tensor, tile: Tile, into: Tensor) -> Tensor:
        """One tile of `pack`, in the buffer `into` (its dtype) where it has to be moved at all."""
        part = values[tile.span]
        if self.filled is None:
            return part.to(into.dtype)
        member = None if self.member is None else self.member[tile.span]
        return place(
            into[: tile.size].zero_(), self.filled[tile.slots], compress(part, member).to(into.dtype)
        )

    def unpack_tile(self, packed: Tensor, tile: Tile) -> Tensor:
        """The participating tokens of one tile's slots, in order, without the empty slots."""
        return packed if self.filled is None else compress(packed, self.filled[tile.slots])


def tile_of(device: torch.device) -> int:
    """Slots, or tokens, that are worked on together on this device."""
    return TILE if device.type == "cpu" else TILE_ON_DEVICE


def layout_of(batch: Batch, every_token: bool = False) -> Layout:
    """The batch's layout over its unmasked tokens, or over `every_token`; kept with the batch."""
    name = "layout/every" if every_token else "layout/unmasked"
    found = batch.derived.get(name)
    if not isinstance(found, Layout):
        found = make_layout(batch.offsets, None if every_token else batch.response_mask)
        batch.derived[name] = found
    return found


def make_layout(offsets: Tensor, member: Tensor | None) -> Layout:
    """The layout of the tokens where `member` `[N]` is set, or of all, of rollouts at `offsets` `[B+1]`."""
    if member is not None and all_set(member):
        member = None
    counts = offsets[1:] - offsets[:-1] if member is None else valid_counts(member, offsets)
    if member is None and _regular(counts):
        chunks = counts // CHUNK
        return Layout(None, counts, chunks, int(counts.sum()), None, tuple(_tiles(chunks, offsets)))
    chunks = torch.where(counts > 0, counts // CHUNK + 1, 0)
    slots = int(chunks.sum()) * CHUNK
    return Layout(member, counts, chunks, slots, _filled(counts, chunks), tuple(_tiles(chunks, offsets)))


def _regular(counts: Tensor) -> bool:
    """Whether all rollouts have the same length, a multiple of 32."""
    if not counts.numel() or int(counts[0]) % CHUNK or not int(counts[0]):
        return False
    return bool((counts == counts[0]).all())


def _filled(counts: Tensor, chunks: Tensor) -> Tensor:
    """`[slots]` bool: the first `counts` slots of each rollout."""
    runs = torch.stack((counts, chunks * CHUNK - counts), dim=1).view(-1)
    return repeated(torch.tensor([True, False], device=counts.device).repeat(counts.shape[0]), runs)


def spans(batch: Batch) -> tuple[tuple[slice, slice], ...]:
    """Spans of whole rollouts of about a tile's tokens, (rollouts, tokens) each; kept with the batch."""
    found: tuple[tuple[slice, slice], ...] | None = batch.derived.get("spans")
    if found is None:
        ends, cuts, at = batch.offsets[1:], [0], 0
        tile = tile_of(batch.offsets.device)
        while cuts[-1] < batch.rollouts:
            wanted = batch.offsets[cuts[-1]] + tile
            at = max(int(torch.searchsorted(ends, wanted, right=True)), cuts[-1] + 1)
            cuts.append(at)
        offsets = batch.offsets[cuts].tolist()
        found = tuple((slice(*cuts[i : i + 2]), slice(*offsets[i : i + 2])) for i in range(len(cuts) - 1))
        batch.derived["spans"] = found
    return found


def _tiles(chunks: Tensor, offsets: Tensor) -> Iterator[Tile]:
    """Cuts rollouts of `chunks` `[B]` into tiles whose slots and grid of totals stay in the cache."""
    sizes, limit = chunks.tolist(), tile_of(chunks.device) // CHUNK
    first = begin = used = rows = width = 0
    for row, size in enumerate(sizes):
        wider = max(width, size)
        if used and size and (used + size > limit or (rows + 1) * wider > 2 * limit):
            yield _tile(chunks, (first, row), begin, offsets, width)
            first, begin, used, rows, wider = row, begin + used, 0, 0, size
        used, rows, width = used + size, rows + (size > 0), wider
    if used:
        yield _tile(chunks, (first, len(sizes)), begin, offsets, width)


def _tile(chunks: Tensor, rollouts: tuple[int, int], begin: int, offsets: Tensor, width: int) -> Tile:
    live = chunks[slice(*rollouts)]
    live = live[live > 0]
    rows, used, device = int(live.shape[0]), int(live.sum()), chunks.device
    spans = rollouts, (begin, begin + used), (int(offsets[rollouts[0]]), int(offsets[rollouts[1]]))
    if rows * width == used:
        return Tile(*spans, rows, width, None, None)
    row = repeated(torch.arange(rows, device=device), live)
    column = torch.arange(used, device=device) - (torch.cumsum(live, 0) - live)[row]
    cell = row * width + column
    chunk = torch.full((rows * width,), used, dtype=torch.int64, device=device)
    chunk[cell] = torch.arange(used, device=device)
    return Tile(*spans, rows, width, cell, chunk)
