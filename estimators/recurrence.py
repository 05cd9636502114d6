"""H_t = u_t + c·H_{t+1} on packed rows, in blocks: a matrix product inside chunks of 32, the same again on
the chunk totals, and one rank-one update. About three nanoseconds a token whatever the length of the rows.

GAE needs one carried number: with G_t = r_t + γ·H_{t+1} and H_t = λ·G_t + (1−λ)·v_t, the advantage is
A_t = G_t − v_t, and H_t = [λ·r_t + (1−λ)·v_t] + γλ·H_{t+1}: a recurrence with one constant coefficient.
"""

from functools import lru_cache

import torch
from torch import Tensor

from estimators.layout import CHUNK, TILE, Layout, Tile
from estimators.workspace import buffer

#: Rows of at most this many chunk totals are solved by one matrix product, longer ones by recursion.
DIRECT = 256


@lru_cache(maxsize=64)
def decay_matrix(
    size: int, coefficient: float, dtype: torch.dtype, device: torch.device, behind: int = 0
) -> Tensor:
    """`[size, size]` with c^(k−j) at row k, column j for k ≥ j, else 0: `u @ it` is H along a row.

    With `behind` 1 it is H one step later: c^(k−j−1) for k > j.
    """
    exponent = torch.arange(size, dtype=torch.float64)
    powers = coefficient ** (exponent[:, None] - exponent[None, :] - behind).clamp(min=0)
    return _without_dust(powers.tril(-behind), dtype).to(device=device)


def _without_dust(powers: Tensor, dtype: torch.dtype) -> Tensor:
    """Powers far too small to show in a sum set to 0: arithmetic on subnormal numbers is 100 times slower."""
    least = torch.finfo(dtype).tiny ** 0.6
    return torch.where(powers < least, 0.0, powers).to(dtype)


@lru_cache(maxsize=64)
def _powers(coefficient: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`[1, 32]`: c^32, c^31, …, c^1, what the value behind a chunk is worth at each of its slots."""
    exponent = torch.arange(CHUNK, 0, -1, dtype=torch.float64)
    return _without_dust(coefficient**exponent, dtype).to(device=device).unsqueeze(0)


def solve_rows(values: Tensor, coefficient: float) -> Tensor:
    """H_t = u_t + c·H_{t+1} along each row of `values` `[R, T]`, H behind the end being 0."""
    rows, width = values.shape
    if width <= DIRECT:
        return values @ decay_matrix(width, coefficient, values.dtype, values.device)
    padded = torch.nn.functional.pad(values, (0, -width % CHUNK))
    solved = padded.view(-1, CHUNK) @ decay_matrix(CHUNK, coefficient, values.dtype, values.device)
    behind = _behind(solved[:, 0].reshape(rows, -1), coefficient**CHUNK).reshape(-1, 1)
    torch.addmm(solved, behind, _powers(coefficient, values.dtype, values.device), out=solved)
    return solved.view(rows, -1)[:, :width]


def _behind(values: Tensor, coefficient: float) -> Tensor:
    """H_{t+1} along each row of `values` `[R, T]`."""
    width = values.shape[1]
    if width <= DIRECT:
        return values @ decay_matrix(width, coefficient, values.dtype, values.device, behind=1)
    behind = torch.zeros_like(values)
    behind[:, :-1] = solve_rows(values, coefficient)[:, 1:]
    return behind


def _behind_chunks(totals: Tensor, tile: Tile, coefficient: float) -> Tensor:
    """H behind each chunk of the tile, `[C, 1]`, from the chunk totals `[C]`; 0 behind a row's last chunk."""
    if tile.chunk is None or tile.cell is None:
        return _behind(totals.view(tile.rows, tile.width), coefficient**CHUNK).view(-1, 1)
    padded = buffer("totals", totals.shape[0] + 1, totals)
    padded[:-1] = totals
    padded[-1] = 0.0
    grid = torch.index_select(padded, 0, tile.chunk).view(tile.rows, tile.width)
    behind = _behind(grid, coefficient**CHUNK).view(-1)
    return torch.index_select(behind, 0, tile.cell).unsqueeze(1)


def solve_tile(values: Tensor, out: Tensor, tile: Tile, coefficient: float) -> None:
    """Solves the recurrence on one tile's slots: `values` and `out` are `[slots of the tile]`."""
    blocks = out.view(-1, CHUNK)
    matrix = decay_matrix(CHUNK, coefficient, values.dtype, values.device)
    torch.mm(values.view(-1, CHUNK), matrix, out=blocks)
    if tile.width > 1:
        behind = _behind_chunks(blocks[:, 0].contiguous(), tile, coefficient)
        powers = _powers(coefficient, values.dtype, values.device)
        torch.addmm(blocks, behind, powers, out=blocks)


def gae_tile(
    rewards: Tensor,
    values: Tensor,
    layout: Layout,
    tile: Tile,
    gamma: float,
    lam: float,
    out: tuple[Tensor, Tensor],
) -> None:
    """Advantages and returns of one tile, all `[slots of the tile]`, into `out`.

    Empty slots must be 0 and mean nothing afterwards. Entries that are not finite spread over their chunk.
    """
    advantages, returns = out
    work = buffer("recurrence", 2 * TILE + 1 if tile.size <= TILE else 2 * tile.size + 1, rewards)
    mixed, carried = work[: tile.size], work[tile.size : 2 * tile.size + 1]
    torch.lerp(values, rewards, lam, out=mixed)
    solve_tile(mixed, carried[:-1], tile, gamma * lam)
    # The entry behind the last slot is of no account: that slot is empty, or is set right below.
    torch.add(rewards, carried[1:], alpha=gamma, out=returns)
    if layout.filled is None:
        # No empty slot behind a row: what was added to its last token is the next row's.
        returns.view(tile.rows, -1)[:, -1] = rewards.view(tile.rows, -1)[:, -1]
    torch.sub(returns, values, out=advantages)


def gae_packed(
    rewards: Tensor, values: Tensor, layout: Layout, gamma: float, lam: float, out: tuple[Tensor, Tensor]
) -> None:
    """`gae_tile` of every tile: rewards and values in slots, advantages and returns in slots into `out`."""
    for tile in layout.tiles:
        span = tile.slots
        gae_tile(rewards[span], values[span], layout, tile, gamma, lam, (out[0][span], out[1][span]))
