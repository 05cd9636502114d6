"""The mask of another step, or one that lies off by some tokens."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import repeated
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
        made = once(batch, f"{label} {edge}", lambda: shifted(batch.response_mask, batch, steps, edge))
        return replace(setup, batch=made)

    return Input(label, text, alter, shared=True)


def _of_neighbour(label: str, text: str, by: int) -> Input:
    def alter(setup: Setup) -> Setup | None:
        made = once(setup.batch, label, lambda: _neighbours(setup.batch, by))
        return replace(setup, batch=made)

    return Input(label, text, alter, rows=True, shared=True)


def _neighbours(batch: Batch, by: int) -> Tensor:
    whose = torch.arange(batch.rollouts, device=batch.offsets.device).roll(by)
    start, length = batch.offsets[:-1][whose], batch.lengths[whose]
    place = torch.arange(batch.tokens, device=batch.offsets.device)
    place = place - repeated(batch.offsets[:-1], batch.lengths)
    there = place < repeated(length, batch.lengths)
    source = repeated(start, batch.lengths) + torch.where(there, place, 0)
    return batch.response_mask[source.clamp(max=max(batch.tokens - 1, 0))] & there


def once(batch: Batch, name: str, mask: Callable[[], Tensor]) -> Batch:
    """The batch with another mask. The last one is kept with the batch: every formula asks for it in turn,
    and what is worked out of a mask once is then there for all."""
    kept: tuple[str, Tensor, Batch] | None = batch.derived.get("another mask")
    if kept is None or kept[0] != name or kept[1] is not batch.response_mask or not _same(kept[2], batch):
        kept = name, batch.response_mask, replace(batch, response_mask=mask())
        batch.derived["another mask"] = kept
    return kept[2]


def _same(one: Batch, other: Batch) -> bool:
    """Whether all but the masks are the same objects."""
    names = (each.name for each in fields(Batch) if each.name not in ("response_mask", "derived"))
    return all(getattr(one, name) is getattr(other, name) for name in names)


MISTAKE = Mistake(
    "mask_shifted",
    "The mask belongs to other tokens: it lies some tokens off, or is another rollout's.",
    variants,
)
