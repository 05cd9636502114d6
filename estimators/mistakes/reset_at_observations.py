"""What flows back over the tokens stops at each masked one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from estimators.batch import TOKEN_FIELDS, Batch
from estimators.estimator import Raw
from estimators.mistakes.mistake import Input, Mistake, Setup
from estimators.reconciliation import Hints
from estimators.registry import ESTIMATORS
from estimators.rewards import TokenRewardParams, token_rewards
from estimators.segments import segmented


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    if not bool(batch.response_mask.all()):
        text = "the sum over later tokens started again at each masked token"
        yield Input("reset_at_observations", text, _cut)


def _cut(setup: Setup) -> Setup | None:
    if not isinstance(setup.params, TokenRewardParams) or setup.run is not None:
        return None
    estimator = setup.estimator

    def run(batch: Batch, params: Any, dtype: torch.dtype) -> Raw:
        raw = ESTIMATORS[estimator].run(*_pieces(batch, params, dtype), dtype)
        return raw if raw.per_token else Raw(batch.scores.to(dtype) * torch.nan, per_token=False)

    return replace(setup, run=run)


def _pieces(batch: Batch, params: TokenRewardParams, dtype: torch.dtype) -> tuple[Batch, Any]:
    """The batch with a new rollout behind every masked token, and its rewards spelt out."""
    cut = segmented(batch, "behind")
    owner = torch.searchsorted(batch.offsets[1:].contiguous(), cut.offsets[:-1].contiguous(), right=True)
    tokens = {"values": batch.values, "token_level_rewards": token_rewards(batch, params, dtype)}
    changes: dict[str, Any] = {"group": batch.group[owner], "scores": batch.scores[owner], **tokens}
    for name in TOKEN_FIELDS:
        changes.setdefault(name, getattr(batch, name))
    return replace(cut, **changes), replace(params, kl_coef=0.0, whiten_rewards=False)


MISTAKE = Mistake(
    "reset_at_observations",
    "The return or the recursion starts again at each masked token, so earlier turns get no credit.",
    variants,
    beside_match=True,
)
