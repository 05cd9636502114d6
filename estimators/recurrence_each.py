"""H_t = u_t + c·H_{t+1} where every rollout has its own c: by doubling the span that a sum covers.

A sum over 2^k entries is that over 2^(k−1) and, c^(2^(k−1)) smaller, the next one. Five steps inside chunks
of 32, and as many on the chunk totals as their number has binary digits. `recurrence` is faster for one c.
"""

import torch
from torch import Tensor

from estimators.layout import CHUNK, Layout, Tile
from estimators.masked import repeated
from estimators.workspace import buffer


def _doubled(values: Tensor, coefficient: Tensor) -> Tensor:
    """H along each row of `values` `[R, T]`, with `coefficient` `[R, 1]` float64; H behind the end is 0.

    Powers are taken in double precision: near 1 their error would grow with the length of the row.
    """
    width, span, power = values.shape[1], 1, coefficient
    found = values.clone()
    while span < width:
        ahead = found[:, span:] * power.to(values.dtype)
        found = torch.cat([found[:, :-span] + ahead, found[:, -span:]], dim=1)
        span, power = 2 * span, power.square()
    return found


def _behind_chunks(totals: Tensor, tile: Tile, coefficient: Tensor) -> Tensor:
    """H behind each chunk, `[C, 1]`, from the chunk totals `[C]`; `coefficient` `[rows, 1]` is c^32."""
    rows, width = tile.rows, tile.width
    if tile.chunk is None or tile.cell is None:
        grid = totals.view(rows, width)
    else:
        grid = torch.cat([totals, totals.new_zeros(1)])[tile.chunk].view(rows, width)
    solved = _doubled(grid, coefficient)
    behind = torch.cat([solved[:, 1:], solved.new_zeros((rows, 1))], dim=1).reshape(-1)
    return (behind if tile.cell is None else behind[tile.cell]).unsqueeze(1)


def solve_tile_each(values: Tensor, out: Tensor, tile: Tile, layout: Layout, coefficient: Tensor) -> None:
    """`recurrence.solve_tile` with a coefficient `[B]` of each rollout of the batch."""
    chunks = layout.chunks[slice(*tile.rollouts)]
    live = chunks > 0
    of_row = coefficient[slice(*tile.rollouts)][live].double().unsqueeze(1)
    of_chunk = repeated(of_row.squeeze(1), chunks[live]).unsqueeze(1)
    blocks = _doubled(values.view(-1, CHUNK), of_chunk)
    if tile.width > 1:
        behind = _behind_chunks(blocks[:, 0].contiguous(), tile, of_row**CHUNK)
        exponents = torch.arange(CHUNK, 0, -1, dtype=torch.float64, device=values.device)
        powers = (of_row**exponents).to(values.dtype)
        blocks = blocks + behind * torch.repeat_interleave(powers, chunks[live], dim=0)
    out.view(-1, CHUNK).copy_(blocks)


def gae_tile_each(
    rewards: Tensor, values: Tensor, layout: Layout, tile: Tile, gamma: float, lam: Tensor, out: Tensor
) -> None:
    """`recurrence.gae_tile` with a λ of each rollout of the batch, `[B]`: advantages into `out`."""
    slots = layout.chunks[slice(*tile.rollouts)] * CHUNK
    rest = repeated((1.0 - lam[slice(*tile.rollouts)]).to(values.dtype), slots)
    carried = buffer("recurrence each", tile.size + 1, rewards)
    solve_tile_each(torch.lerp(rewards, values, rest), carried[:-1], tile, layout, gamma * lam)
    carried[-1] = 0.0
    targets = torch.add(rewards, carried[1:], alpha=gamma)
    if layout.filled is None:
        targets.view(tile.rows, -1)[:, -1] = rewards.view(tile.rows, -1)[:, -1]
    torch.sub(targets, values, out=out)
