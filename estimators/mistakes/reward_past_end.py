"""The reward on another token than the one it belongs to."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import last_index, segment_sums
from estimators.mistakes.mistake import Input, Mistake, Setup
from estimators.mistakes.shifting import shifted
from estimators.reconciliation import Hints
from estimators.rewards import TokenRewardParams, token_rewards

Move = Callable[[Tensor, Batch], Tensor]


def moved_rewards(label: str, text: str, move: Move) -> Input:
    """`move` gives the token rewards `[N]` as they were used, from those that are right."""

    def alter(setup: Setup) -> Setup | None:
        params, batch = setup.params, setup.batch
        if not isinstance(params, TokenRewardParams) or not batch.lengths_known:
            return None
        right = token_rewards(batch, params, torch.float64)
        used = move(right, batch)
        if bool((used == right).all()):
            return None
        changed = replace(batch, token_level_rewards=used, token_level_scores=None)
        return replace(setup, batch=changed, params=replace(params, kl_coef=0.0))

    return Input(label, text, alter)


def one_later(rewards: Tensor, batch: Batch) -> Tensor:
    """Everything one token later; what leaves the rollout is lost."""
    return shifted(rewards, batch, 1)


def on_last(rewards: Tensor, batch: Batch, unmasked: bool) -> Tensor:
    """The rollout's whole reward on its last token, or on its last unmasked one."""
    where = last_index(batch.response_mask, batch.offsets)
    if not unmasked:
        where = torch.where(batch.lengths > 0, batch.offsets[1:] - 1, -1)
    placed, there = torch.zeros_like(rewards), where >= 0
    placed[where[there]] = segment_sums(rewards, batch.offsets)[there].to(rewards.dtype)
    return placed


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    text = "each reward was used one token later, past the end for the last one"
    yield moved_rewards("reward_past_end", text, one_later)


MISTAKE = Mistake("reward_past_end", "The reward lies one token past the one it belongs to.", variants)
