"""The whole batch treated as one group, as happens where rows do not divide by the group size."""

from collections.abc import Iterator

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, regrouped, same_partition
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    one = torch.zeros_like(batch.group)
    if batch.rollouts and not same_partition(one, batch.group):
        yield regrouped("batch_grouping", "the whole batch was taken for one group", one)
    single = torch.arange(batch.rollouts, device=batch.group.device)
    if batch.rollouts and not same_partition(single, batch.group):
        yield regrouped("single_grouping", "every row was taken for a group of its own", single)


MISTAKE = Mistake(
    "batch_grouping",
    "The whole batch is one group, or every row is one: the group key is wrong or got lost.",
    variants,
)
