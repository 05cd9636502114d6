"""GAE over many (γ, λ): tokens are packed once, and each pair costs its recurrence and a look at the result.

The recurrence is the cost: packing anew for each pair doubles it where half of the tokens are masked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.every import EveryParams
from estimators.gae import GaeParams
from estimators.layout import Layout, layout_of
from estimators.masked import set_positions
from estimators.recurrence import gae_tile
from estimators.refused import Refused
from estimators.request import Request
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.spread import Outcome, Signs, stride_of
from estimators.sweep_tally import Piece, SignTally, Tally, line_of
from estimators.workspace import buffer

#: Parameters that may differ between the points, or that packing takes care of.
_SERVED = {"gamma", "lam", "masked_tokens", *(each.name for each in fields(TokenRewardParams))} - {
    each.name for each in fields(EveryParams)
}


def gae_outcomes(batch: Batch, points: Sequence[Outcome]) -> Iterator[Outcome] | None:
    """The outcomes of points that differ in γ, λ and a batch-wide whitening; None for others."""
    if not points or batch.values is None or not all(_served(batch, point.request) for point in points):
        return None
    start = points[0].request
    alike = [replace(each.request.params, gamma=0.0, lam=0.0) for each in points]
    if any(each != alike[0] for each in alike) or any(p.request.dtype != start.dtype for p in points):
        return None
    rewards = token_rewards(batch, start.params, start.dtype)
    layout = layout_of(batch)
    pieces = list(_pieces(batch, layout, rewards, start.dtype))
    if not all(bool(torch.isfinite(piece.rewards.sum() + piece.values.sum())) for piece in pieces):
        return None
    return _outcomes(layout, pieces, points)


def _served(batch: Batch, request: Request) -> bool:
    params, whitening = request.params, request.whitening
    if request.estimator != "gae" or type(params) is not GaeParams:
        return False
    others = (each for each in fields(params) if each.name not in _SERVED)
    usual = all(getattr(params, each.name) == each.default for each in others)
    every = params.masked_tokens == "skip" or layout_of(batch).member is None
    merges = whitening.scope == "none" or (whitening.scope == "batch" and whitening.unit == "token")
    plain = whitening.clip is None and whitening.mean_scope == "same"
    return usual and every and merges and plain


def _pieces(batch: Batch, layout: Layout, rewards: Tensor, dtype: torch.dtype) -> Iterator[Piece]:
    assert batch.values is not None
    every, device = stride_of(int(layout.counts.sum())), rewards.device
    for tile in layout.tiles:
        r = layout.pack_tile(rewards, tile, torch.empty(tile.size, dtype=dtype, device=device))
        v = layout.pack_tile(batch.values, tile, torch.empty(tile.size, dtype=dtype, device=device))
        picked = torch.arange(0, tile.size, every, device=device)
        empty = picked[:0]
        if layout.filled is not None:
            filled = layout.filled[tile.slots]
            picked, empty = picked[filled[::every]], set_positions(~filled)
        yield Piece(tile, r, v, empty, picked)


def _outcomes(layout: Layout, pieces: Sequence[Piece], points: Sequence[Outcome]) -> Iterator[Outcome]:
    first: list[Signs] = []
    for point in points:
        params, setting = point.request.params, point.request.whitening
        tally, signs = Tally(), SignTally(first)
        # Whitening moves the place where signs change, which is known only once all tiles are done.
        whole = (
            buffer("sweep", layout.slots, pieces[0].rewards) if pieces and setting.scope != "none" else None
        )
        for number, piece in enumerate(pieces):
            size = piece.tile.size
            found = buffer("tile", size, piece.rewards) if whole is None else whole[piece.tile.slots]
            out = (found, buffer("returns", size, found))
            gae_tile(piece.rewards, piece.values, layout, piece.tile, params.gamma, params.lam, out)
            tally.add(found, piece)
            if whole is None:
                signs.add(number, found, piece, 0.0)
        try:
            line = line_of(tally.raw, setting)
        except Refused as refused:
            yield replace(point, refused=str(refused))
            continue
        if whole is not None:
            for number, piece in enumerate(pieces):
                signs.add(number, whole[piece.tile.slots], piece, line.zero)
        first = first or signs.own
        spread = tally.spread(line, signs)
        yield replace(point, per_token=True, spread=spread, raw=tally.raw, flips=signs.flips)
