"""Rows grouped by the text of their prompt, where the recorded groups are others."""

from collections.abc import Iterator

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, regrouped, same_partition
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if hints.prompt is not None and not same_partition(hints.prompt, batch.group):
        text = "the rows were grouped by the text of their prompt, not by the recorded group"
        yield regrouped("prompt_grouping", text, hints.prompt)


MISTAKE = Mistake(
    "prompt_grouping",
    "Rows are grouped by the text of their prompt, so that equal texts merge and unequal ones part.",
    variants,
)
