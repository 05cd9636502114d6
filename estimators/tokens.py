"""Statistics of each rollout's token advantages, and an affine map of each rollout's own, tile by tile.

Single-precision sums run over 32 tokens and go on in double precision; deviations are from a token of the
chunk, so that a large common offset costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.layout import CHUNK, Layout, Tile, layout_of, make_layout, spans
from estimators.masked import all_set, compress, repeated, segment_least, segment_sums
from estimators.moments import Moments
from estimators.whitening import Affine, Whitening, rollout_affine, scope_ids
from estimators.workspace import buffer


@dataclass(frozen=True, slots=True)
class RolloutMoments:
    """Of each rollout's finite unmasked advantages, `[B]` float64: count, and NaN elsewhere where it is 0."""

    count: Tensor
    mean: Tensor
    m2: Tensor
    least: Tensor
    greatest: Tensor


def token_moments(values: Tensor, batch: Batch, extremes: bool = True) -> RolloutMoments:
    """Moments and extremes per rollout of `values` `[N]` over its unmasked tokens that are finite.

    Without `extremes`, least and greatest mean nothing: they cost a third of the time.
    """
    layout = layout_of(batch)
    chunks = _chunk_statistics(values, layout, extremes)
    if not bool(torch.isfinite(chunks.sum())):
        layout = make_layout(batch.offsets, batch.response_mask & torch.isfinite(values))
        chunks = _chunk_statistics(values, layout, extremes)  # what overflows is infinite still
    return _by_rollout(chunks, layout, extremes)


def whiten(
    values: Tensor,
    batch: Batch,
    setting: Whitening,
    history: Sequence[Moments] = (),
    out: Tensor | None = None,
) -> Tensor:
    """`values` `[N]` whitened, into `out` if given. Refuses as `whitening.rollout_affine` does."""
    affine = None
    if setting.scope != "none":
        ids = scope_ids(batch, setting.scope)
        one = ids is None and setting.unit == "token" and setting.mean_scope == "same"
        parts = _of_every_token(values, batch) if one else None
        if parts is None:
            moments = token_moments(values, batch, extremes=False)
            parts = (moments.mean, moments.m2, moments.count)
        affine = rollout_affine(*parts, ids, setting, history)
    return map_tokens(values, affine, batch, setting.zero_masked, out)


def _of_every_token(values: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor] | None:
    """Mean, m2 and count, `[1]` float64 each, of all unmasked tokens; None where one is not finite."""
    whole = Moments()
    for _, span in spans(batch):
        mask = batch.response_mask[span]
        part = values[span] if all_set(mask) else compress(values[span], mask)
        if not part.shape[0]:
            continue
        pivot = float(part[0])
        total, squares = _around(part, pivot)
        if 2 * total * total > squares * part.shape[0]:
            # The first token lies apart: most of the squares is its distance.
            pivot = float(part.new_tensor(pivot + total / part.shape[0]))
            total, squares = _around(part, pivot)
        if not isfinite(total + squares):
            return None
        mean = total / part.shape[0]
        whole = whole.merge(Moments(part.shape[0], pivot + mean, max(squares - total * mean, 0.0)))
    found = torch.tensor([[whole.mean], [whole.m2], [whole.count]], dtype=torch.float64, device=values.device)
    return found[0], found[1], found[2]


def _around(values: Tensor, pivot: float) -> tuple[float, float]:
    """Σ(x − pivot) and Σ(x − pivot)² of `values` `[M]`; `pivot` is a number of their precision."""
    size = values.shape[0]
    deviations = buffer("deviations", size + CHUNK, values)[: size + -size % CHUNK]
    deviations[size:] = 0.0
    torch.sub(values, pivot, out=deviations[:size])
    blocks, ones = deviations.view(-1, CHUNK), values.new_ones(CHUNK)
    total = float(torch.mv(blocks, ones).sum(dtype=torch.float64))
    return total, float(torch.mv(blocks.mul_(blocks), ones).sum(dtype=torch.float64))


def _chunk_statistics(values: Tensor, layout: Layout, extremes: bool) -> Tensor:
    """`[5, chunks]` float64: pivot, Σ(x − pivot), Σ(x − pivot)², least and greatest of each chunk's tokens.

    A sum of entries that are not finite, or too large, is not finite.
    """
    found = torch.zeros((5, layout.slots // CHUNK), dtype=torch.float64, device=values.device)
    ones = torch.ones(CHUNK, dtype=values.dtype, device=values.device)
    for tile in layout.tiles:
        packed = layout.pack_tile(values, tile, buffer("packed", tile.size, values))
        blocks = packed.view(-1, CHUNK)
        pivot = blocks[:, :1].clone()
        _repeat_in_tails(blocks, layout, tile)
        deviations = buffer("deviations", tile.size, values).view(-1, CHUNK)
        torch.sub(blocks, pivot, out=deviations)
        part = found[:, slice(*tile.chunks)]
        part[0] = pivot[:, 0]
        part[1] = torch.mv(deviations, ones)
        part[2] = torch.mv(deviations.mul_(deviations), ones)
        if extremes:
            part[3], part[4] = blocks.amin(dim=1), blocks.amax(dim=1)
    return found


def _repeat_in_tails(blocks: Tensor, layout: Layout, tile: Tile) -> None:
    """Fills each chunk's empty slots with its first entry: they then deviate by 0 and are no extreme."""
    if layout.filled is None:
        return
    chunks = layout.chunks[slice(*tile.rollouts)]
    tails = torch.cumsum(chunks, 0)[chunks > 0] - 1
    rows = blocks[tails]
    filled = layout.filled[tile.slots].view(-1, CHUNK)[tails]
    blocks[tails] = torch.where(filled, rows, rows[:, :1])


def _by_rollout(chunks: Tensor, layout: Layout, extremes: bool) -> RolloutMoments:
    pivot, total, squares, low, high = chunks
    offsets = torch.nn.functional.pad(torch.cumsum(layout.chunks, 0), (1, 0))
    live = layout.chunks > 0
    tokens = torch.full_like(pivot, CHUNK)
    tokens[offsets[1:][live] - 1] -= (layout.chunks * CHUNK - layout.counts)[live].double()
    some = tokens.clamp(min=1)
    # From the first token of each rollout: a constant one then has a mean and deviations that are exact.
    first = torch.zeros_like(live, dtype=torch.float64)
    first[live] = pivot[offsets[:-1][live]]
    shift = pivot - repeated(first, layout.chunks)
    count = layout.counts.double()
    offset = segment_sums(tokens * shift + total, offsets) / count.clamp(min=1)
    inside = (squares - total * total / some).clamp_(min=0)
    between = tokens * (shift + total / some - repeated(offset, layout.chunks)).square_()
    found = [first + offset, segment_sums(inside + between, offsets)]
    if extremes:
        empty = tokens == 0
        found.append(segment_least(low.masked_fill(empty, torch.inf), offsets))
        found.append(-segment_least((-high).masked_fill(empty, torch.inf), offsets))
    mean, m2, *ends = (part.masked_fill(~live, torch.nan) for part in found)
    least, greatest = ends or (mean, mean)
    return RolloutMoments(count, mean, m2, least, greatest)


def map_tokens(
    values: Tensor, affine: Affine | None, batch: Batch, zero_masked: bool, out: Tensor | None = None
) -> Tensor:
    """`affine` (`[B]`, or `[1]` where all rollouts share one) of `values` `[N]`; masked tokens become 0 if
    `zero_masked`, else are mapped too."""
    out = torch.empty_like(values) if out is None else out
    for rollouts, span in spans(batch):
        part = out[span]
        _map_into(part, values[span], affine, batch.lengths[rollouts], rollouts)
        if zero_masked:
            shown = _unmasked(part, batch.response_mask[span], buffer("shown", part.shape[0], values))
            if shown is not part:
                part.copy_(shown)
    return out


def absolute_sums(values: Tensor, batch: Batch) -> Tensor:
    """Σ|x| of `values` `[N]` over each rollout's finite unmasked tokens, `[B]` float64."""
    totals = torch.zeros(batch.rollouts, dtype=torch.float64, device=values.device)
    for rollouts, span in spans(batch):
        part = values[span]
        shown = _unmasked(part, batch.response_mask[span], buffer("shown", part.shape[0], values))
        offsets = batch.offsets[rollouts.start : rollouts.stop + 1] - span.start
        sums = segment_sums(torch.abs(shown, out=buffer("absolute", part.shape[0], values)), offsets)
        if not bool(torch.isfinite(sums.sum())):
            sums = segment_sums(torch.where(torch.isfinite(shown), shown.abs(), 0.0), offsets)
        totals[rollouts] = sums
    return totals


def _map_into(out: Tensor, values: Tensor, affine: Affine | None, lengths: Tensor, rollouts: slice) -> None:
    if affine is None:
        out.copy_(values)
        return
    centre, factor, back = affine.centre, affine.factor, affine.back
    if centre.shape[0] == 1:
        torch.sub(values, float(centre[0]), out=out)
        out.mul_(float(factor[0]))
    else:
        torch.sub(values, repeated(centre[rollouts].to(out.dtype), lengths), out=out)
        out.mul_(repeated(factor[rollouts].to(out.dtype), lengths))
    if bool(back.any()):
        out.add_(float(back[0]) if back.shape[0] == 1 else repeated(back[rollouts].to(out.dtype), lengths))


def _unmasked(values: Tensor, mask: Tensor, into: Tensor) -> Tensor:
    """`values` with 0 where `mask` is not set, also if they are not finite there; `values` if all are set."""
    if all_set(mask):
        return values
    torch.mul(values, mask, out=into)
    if not bool(torch.isfinite(into.sum())):
        into.copy_(torch.where(mask, values, 0.0))
    return into
