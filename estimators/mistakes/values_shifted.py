"""The critic's values one token off."""

from collections.abc import Iterator
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup, once
from estimators.mistakes.shifting import EDGES, shifted
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if batch.values is None:
        return
    for steps in (1, -1):
        where = "later" if steps > 0 else "earlier"
        for edge in EDGES:
            text = f"the values were used one token {where} than they are recorded"
            yield _moved(f"values_shifted:{steps}", text, steps, edge)


def _moved(label: str, text: str, steps: int, edge: str) -> Input:
    def made(batch: Batch) -> Batch:
        assert batch.values is not None
        return replace(batch, values=shifted(batch.values, batch, steps, edge))

    def alter(setup: Setup) -> Setup | None:
        batch = setup.batch
        if batch.values is None or not hasattr(setup.params, "masked_tokens"):
            return None
        return once(setup, f"{label} {edge}", made)

    return Input(label, text, alter, shared=True)


MISTAKE = Mistake("values_shifted", "The critic's values are one token off.", variants)
