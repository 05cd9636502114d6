"""The reward on the last unmasked token, where it is recorded elsewhere."""

from collections.abc import Iterator

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake
from estimators.mistakes.reward_past_end import moved_rewards, on_last
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    text = "the rollout's whole reward was put on its last unmasked token"
    yield moved_rewards("reward_on_last_unmasked", text, lambda r, b: on_last(r, b, unmasked=True))


MISTAKE = Mistake(
    "reward_on_last_unmasked",
    "The reward was moved to the last unmasked token, away from where it is recorded.",
    variants,
)
