"""Rollouts that were cut into several rows, where each row counts as a rollout of its own."""

from collections.abc import Iterator

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, with_params
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if batch.rollout_id is None or torch.unique(batch.rollout_id).shape[0] == batch.rollouts:
        return
    text = "every row counted in its group, although several rows are one rollout"
    yield with_params("segments_counted", text, segments="each")
    text = "only the last row of each rollout counted in its group"
    yield with_params("segments_counted:last", text, segments="last")


MISTAKE = Mistake(
    "segments_counted",
    "A rollout that was cut into several rows counts several times in its group.",
    variants,
    beside_match=True,
)
