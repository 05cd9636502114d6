"""A recurrence over the tokens of every rollout, tile by tile: packed, solved, and put back on the tokens."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.layout import CHUNK, Layout, Tile, layout_of
from estimators.masked import place, put, repeated, set_positions
from estimators.workspace import buffer

#: Solves one tile: the packed inputs, and where its result belongs, `[slots of the tile]` each.
Solve = Callable[[Sequence[Tensor], Tensor, Tile], None]


def solved_tiles(
    batch: Batch, every_token: bool, inputs: Sequence[Tensor], out: Tensor, solve: Solve
) -> Iterator[tuple[Tile, Tensor]]:
    """Fills `out` `[N]` and yields each tile with its part of it, while that is still in the cache.

    every_token  masked tokens take part; else they are left out, and each has the next unmasked token's
                 result, 0 behind the last one
    inputs       `[N]` each. A token where one is not finite makes itself and every earlier one NaN
    """
    layout = layout_of(batch, every_token)
    if not layout.tiles:
        out.zero_()
    for tile in layout.tiles:
        packed: list[Tensor] = [
            layout.pack_tile(values, tile, buffer(f"input {k}", tile.size, out))
            for k, values in enumerate(inputs)
        ]
        part = out[tile.span]
        # As they lie, the results need not be moved; else they pass through a buffer.
        found = part if layout.filled is None else buffer("result", tile.size, out)
        undefined = _undefined(packed, layout, tile)
        if undefined is not None:
            packed = [values.masked_fill(undefined[0], 0.0) for values in packed]
        solve(packed, found, tile)
        if undefined is not None:
            found.masked_fill_(undefined[1], torch.nan)
        if layout.filled is not None:
            _spread(layout.unpack_tile(found, tile), layout, tile, batch, part)
        yield tile, part


def _undefined(packed: Sequence[Tensor], layout: Layout, tile: Tile) -> tuple[Tensor, Tensor] | None:
    """Slots that are not finite, and slots that depend on one: it and all before it in its rollout.

    `[slots of the tile]` bool each, or None where all are finite.
    """
    total = packed[0].sum()
    for values in packed[1:]:
        total = total + values.sum()
    if bool(torch.isfinite(total)):
        return None
    broken = ~torch.isfinite(packed[0])
    for values in packed[1:]:
        broken |= ~torch.isfinite(values)
    # Broken slots at or behind each slot, less those behind the end of its rollout.
    behind = torch.nn.functional.pad(
        torch.flip(torch.cumsum(torch.flip(broken.long(), (0,)), 0), (0,)), (0, 1)
    )
    slots = layout.chunks[slice(*tile.rollouts)] * CHUNK
    after = repeated(behind[torch.cumsum(slots, 0)], slots)
    return broken, behind[:-1] > after


def _spread(found: Tensor, layout: Layout, tile: Tile, batch: Batch, out: Tensor) -> None:
    """Writes a tile's results `found` on its tokens `out`: a token that was left out gets the next
    participating one's, 0 behind the rollout's last one."""
    if layout.member is None:
        out.copy_(found)
        return
    member = layout.member[tile.span]
    place(out, member, found)
    left_out = set_positions(~member)
    if not left_out.numel():
        return
    # Participating tokens before a left-out one: its position less the left-out ones before it.
    following = left_out - torch.arange(left_out.shape[0], device=left_out.device)
    counts = layout.counts[slice(*tile.rollouts)]
    lengths = batch.lengths[slice(*tile.rollouts)]
    ends = repeated(torch.cumsum(counts, 0), lengths - counts)
    following = torch.where(following < ends, following, found.shape[0])
    put(out, left_out, torch.nn.functional.pad(found, (0, 1)), following)
