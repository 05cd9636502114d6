"""Whitening inside every rank or micro-batch, where the batch was meant."""

from collections.abc import Iterator

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.group_split import parts
from estimators.mistakes.mistake import Mistake, Whiten, dense, same_partition
from estimators.reconciliation import Hints
from estimators.shape import Shape
from estimators.whitening import W_VERL, Affine, Whitening


def kernel(own: Whitening) -> Whitening:
    """The convention's own kernel, or the commonest where it does not whiten."""
    return W_VERL if own.scope == "none" else own


def variants(batch: Batch, hints: Hints) -> Iterator[Whiten]:
    for detail, text, part in parts(batch):
        if int(part.max()) > 0:
            yield _over(f"rank_whitening{detail}", f"whitened inside every {text} alone", dense(part))
    each = torch.arange(batch.rollouts, device=batch.group.device)
    known = [batch.rank, batch.micro_batch]
    if batch.rollouts > 1 and not any(p is not None and same_partition(p, each) for p in known):
        yield _over("rank_whitening:rollout", "whitened inside every rollout alone", each)


def _over(label: str, text: str, ids: Tensor) -> Whiten:
    def affine(shape: Shape, own: Whitening) -> Affine | None:
        return shape.whitened_over(ids, kernel(own))

    return Whiten(label, text, affine, ids)


MISTAKE = Mistake(
    "rank_whitening",
    "Advantages are whitened inside every rank or micro-batch instead of over the batch.",
    variants,
)
