"""The KL penalty that belongs into the reward is not in it."""

from collections.abc import Iterator
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup, rows_changed
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    text = "the KL penalty was left out of the reward"
    if batch.token_level_scores is not None and batch.token_level_rewards is not None:
        yield Input("kl_left_out", text, _before_kl, scores=True)
    yield Input("kl_left_out", text, _no_coefficient, scores=True)


def _before_kl(setup: Setup) -> Setup | None:
    if getattr(setup.params, "kl_coef", 0):
        return None
    changed = replace(setup.batch, token_level_rewards=setup.batch.token_level_scores)
    return replace(setup, batch=changed)


def _no_coefficient(setup: Setup) -> Setup | None:
    if not getattr(setup.params, "kl_coef", 0):
        return None
    batch = setup.batch
    if batch.token_level_scores is not None:
        batch = rows_changed(batch, token_level_rewards=batch.token_level_scores)
        batch.derived.pop("sums", None)
    return replace(setup, batch=batch, params=replace(setup.params, kl_coef=0.0))


MISTAKE = Mistake("kl_left_out", "The KL penalty is not in the reward, though it is configured.", variants)
