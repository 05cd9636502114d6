"""Rollouts that are not trained on still move their siblings."""

from collections.abc import Iterator

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup, once, rows_changed, with_params
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if bool((batch.unmasked == 0).any()):
        text = "rollouts without an unmasked token were counted in their group"
        yield with_params("rejected_vote", text, fully_masked="vote")
        text = "rollouts without an unmasked token were left out of their group"
        yield with_params("rejected_left_out", text, fully_masked="exclude")
    if bool(torch.isnan(batch.scores).any()):
        text = "rollouts without a reward were counted as reward 0"
        yield Input("missing_as_zero", text, _as_zero, rows=True, shared=True)


def _as_zero(setup: Setup) -> Setup | None:
    return once(
        setup, "missing_as_zero", lambda batch: rows_changed(batch, scores=batch.scores.nan_to_num(nan=0.0))
    )


MISTAKE = Mistake(
    "rejected_vote",
    "Rollouts that are masked out or were never scored still move the mean of their siblings.",
    variants,
)
