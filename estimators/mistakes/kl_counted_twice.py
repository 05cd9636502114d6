"""The KL penalty taken off the reward twice."""

from collections.abc import Iterator
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    text = "the KL penalty was taken off the reward twice"
    if batch.token_level_scores is not None and batch.token_level_rewards is not None:
        yield Input("kl_counted_twice", text, _again, scores=True)
    yield Input("kl_counted_twice", text, _double_coefficient, scores=True)


def _again(setup: Setup) -> Setup | None:
    before, now = setup.batch.token_level_scores, setup.batch.token_level_rewards
    if getattr(setup.params, "kl_coef", 0) or before is None or now is None:
        return None
    return replace(setup, batch=replace(setup.batch, token_level_rewards=2 * now - before))


def _double_coefficient(setup: Setup) -> Setup | None:
    coefficient = getattr(setup.params, "kl_coef", 0)
    return replace(setup, params=replace(setup.params, kl_coef=2 * coefficient)) if coefficient else None


MISTAKE = Mistake("kl_counted_twice", "The KL penalty is taken off the reward twice.", variants)
