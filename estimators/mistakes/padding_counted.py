"""Padding counted as if it had been generated: in the whitening, or in the mask."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import last_index, repeated
from estimators.mistakes.mistake import Input, Mistake, Whiten, another_mask
from estimators.mistakes.rank_whitening import kernel
from estimators.reconciliation import Hints
from estimators.shape import Shape, of_all
from estimators.whitening import Affine, Whitening


def variants(batch: Batch, hints: Hints) -> Iterator[Input | Whiten]:
    zeros = "the whitening counted masked tokens and padding, as zeros"
    yield Whiten("padding_counted", zeros, _with_zeros)
    mixed = (
        "the whitening took its mean over masked tokens and padding too, its spread over unmasked ones only"
    )
    yield Whiten("padding_counted:mean", mixed, _mean_over_padding)
    text = "the masked tokens at the end of each response were trained on like the others"
    yield another_mask("padding_counted", text, _ends_unmasked)


def _with_zeros(shape: Shape, own: Whitening) -> Affine | None:
    return of_all(shape.padded, kernel(own))


def _mean_over_padding(shape: Shape, own: Whitening) -> Affine | None:
    right = shape.whitened(replace(kernel(own), scope="batch", unit="token"))
    cells, mean, _ = shape.padded
    if right is None or not bool(cells.sum() > 0):
        return None
    count, own_mean, m2 = shape.moments
    centre = (cells * mean).sum(0, keepdim=True) / cells.sum()
    squares = m2.nan_to_num(0.0) + count * (own_mean.nan_to_num(0.0) - centre).square()
    variance = squares.sum() / count.sum().clamp(min=1)
    factor = (1 / variance.clamp(min=1e-8).sqrt()).reshape(1)
    return Affine(centre, factor, torch.zeros_like(centre))


def _ends_unmasked(batch: Batch) -> Tensor | None:
    last = last_index(batch.response_mask, batch.offsets)
    position = torch.arange(batch.tokens, device=batch.offsets.device)
    behind = torch.where(last >= 0, last, batch.tokens)
    mask = batch.response_mask | (position > repeated(behind, batch.lengths))
    return None if bool((mask == batch.response_mask).all()) else mask


MISTAKE = Mistake(
    "padding_counted",
    "Padding is counted as if the policy had generated it.",
    variants,
)
