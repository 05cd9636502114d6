"""The mask of another step, or one that lies off by some tokens."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup
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
    def alter(setup: Setup) -> Setup | None:
        batch = setup.batch
        mask = shifted(batch.response_mask, batch, steps, edge)
        return replace(setup, batch=replace(batch, response_mask=mask))

    return Input(label, text, alter)


def _of_neighbour(label: str, text: str, by: int) -> Input:
    def alter(setup: Setup) -> Setup | None:
        batch = setup.batch
        whose = torch.arange(batch.rollouts, device=batch.offsets.device).roll(by)
        start, length = batch.offsets[:-1][whose], batch.lengths[whose]
        place = torch.arange(batch.tokens, device=batch.offsets.device)
        place = place - batch.offsets[:-1].repeat_interleave(batch.lengths)
        there = place < length.repeat_interleave(batch.lengths)
        source = start.repeat_interleave(batch.lengths) + torch.where(there, place, 0)
        mask = batch.response_mask[source.clamp(max=max(batch.tokens - 1, 0))] & there
        return replace(setup, batch=replace(batch, response_mask=mask))

    return Input(label, text, alter, rows=True)


MISTAKE = Mistake(
    "mask_shifted",
    "The mask belongs to other tokens: it lies some tokens off, or is another rollout's.",
    variants,
)
