"""The reward on the last token of the response, where that one is masked."""

from collections.abc import Iterator

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake
from estimators.mistakes.reward_past_end import moved_rewards, on_last
from estimators.reconciliation import Hints


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    text = "the reward was put on the last token of the response, masked or not"
    yield moved_rewards("reward_on_last_response", text, lambda r, b: on_last(r, b, unmasked=False))


MISTAKE = Mistake(
    "reward_on_last_response",
    "The reward lies on the last token of the response, where a masked token loses or delays it.",
    variants,
)
