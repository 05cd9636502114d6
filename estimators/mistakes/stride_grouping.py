"""Rows grouped by their place in the file, N at a time or every Nth, where siblings do not lie so."""

from collections.abc import Iterator

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import (
    Input,
    Mistake,
    in_file_order,
    regrouped,
    same_partition,
    with_params,
)
from estimators.reconciliation import Hints

_USUAL = (2, 3, 4, 5, 6, 8, 10, 12, 16, 32, 64)
_CONFIGURED = ("num_generations", "group_size", "n_samples_per_prompt", "num_return_sequences_in_group", "n")


def plausible(batch: Batch, hints: Hints) -> list[int]:
    """The group sizes to try: what is configured, the sizes of the recorded groups, the usual ones."""
    sizes = torch.unique(torch.bincount(batch.group)).tolist() if batch.rollouts else []
    configured = [int(hints.params[name]) for name in _CONFIGURED if isinstance(hints.params.get(name), int)]
    wanted = dict.fromkeys([*configured, *sorted(sizes, reverse=True)[:8], *_USUAL])
    return [size for size in wanted if 1 < size < batch.rollouts]


def moduli(batch: Batch, hints: Hints) -> list[int]:
    """Numbers by which places may have been divided for their rest: the sizes of the recorded or configured
    groups, and how many groups those make."""
    sizes = [size for size in plausible(batch, hints) if size not in _USUAL]
    sizes += torch.unique(torch.bincount(batch.group)).tolist()[-4:] if batch.rollouts else []
    sizes += [batch.rollouts // size for size in sizes if size and batch.rollouts % size == 0]
    return [size for size in dict.fromkeys(sizes) if 1 < size < batch.rollouts]


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    place = in_file_order(batch)
    for size in plausible(batch, hints):
        group = place // size
        if not same_partition(group, batch.group):
            text = f"the rows were grouped {size} at a time in the order of the file"
            yield regrouped(f"stride_grouping:{size}", text, group)
        if batch.rollouts % size:
            text = f"the rows were grouped {size} at a time, and those left over divided by ε alone"
            label = f"stride_grouping:{size}"
            yield with_params(label, text, group_size=size, incomplete="raw")
    for size in moduli(batch, hints):
        group = place % size
        if not same_partition(group, batch.group):
            text = f"every {size}th row of the file was put together, where siblings lie side by side"
            yield regrouped(f"stride_grouping:mod_{size}", text, group)


MISTAKE = Mistake(
    "stride_grouping",
    "Rows are grouped by their place in the file, N at a time or every Nth, where siblings do not lie so.",
    variants,
)
