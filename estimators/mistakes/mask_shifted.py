"""The mask of another step, or one that lies off by some tokens."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, another_mask, in_file_order, once
from estimators.mistakes.shifting import shifted
from estimators.reconciliation import Hints

_STEPS = (1, -1, 2, -2)


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if bool(batch.response_mask.all()):
        return
    for steps in _STEPS:
        where = "later" if steps > 0 else "earlier"
        for edge in ("zero", "kept", "wrapped"):
            many = f"{abs(steps)} token{'s' if abs(steps) > 1 else ''}"
            text = f"the mask was used {many} {where} than it is recorded"
            yield _moved(f"mask_shifted:{steps}", text, steps, edge)
    if batch.rollouts > 1:
        for by in (1, -1):
            text = f"each rollout had the mask of the {'one before' if by > 0 else 'next one'} in the batch"
            yield _of_neighbour(f"other_mask:{by}", text, by)


def _moved(label: str, text: str, steps: int, edge: str) -> Input:
    return another_mask(label, text, lambda batch: shifted(batch.response_mask, batch, steps, edge), edge)


def _of_neighbour(label: str, text: str, by: int) -> Input:
    def made(batch: Batch) -> Batch:
        every = torch.arange(batch.rollouts, device=batch.offsets.device)
        return replace(batch, response_mask=_neighbours(batch, every, by))

    return Input(
        label,
        text,
        lambda setup: once(setup, label, made),
        rows=True,
        shared=True,
        mask_of=lambda batch, rows: _neighbours(batch, rows, by),
    )


def _neighbours(batch: Batch, rows: Tensor, by: int) -> Tensor:
    """The masks of the rollouts `by` places before `rows`, cut or filled up with 0 to the length of each."""
    file = in_file_order(batch)  # which is not the order of the batch where groups lie among each other
    whose = torch.argsort(file)[(file[rows] - by).remainder(batch.rollouts)]
    own, there = batch.lengths[rows], torch.minimum(batch.lengths[rows], batch.lengths[whose])
    found = torch.zeros(int(own.sum()), dtype=torch.bool)
    first, source = torch.cumsum(own, 0) - own, batch.offsets[whose]
    # Row by row: copies of what lies together are ten times as fast as an index of every token.
    into, mask = found.numpy(), batch.response_mask.numpy()
    for a, b, count in zip(first.tolist(), source.tolist(), there.tolist(), strict=True):
        into[a : a + count] = mask[b : b + count]
    return found


MISTAKE = Mistake(
    "mask_shifted",
    "The mask belongs to other tokens: it lies some tokens off, or is another rollout's.",
    variants,
)
