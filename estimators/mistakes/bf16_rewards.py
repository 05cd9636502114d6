"""Every step of the group statistics rounded to bfloat16."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, by_size
from estimators.estimator import Raw
from estimators.mistakes.mistake import Input, Mistake, Setup, once
from estimators.reconciliation import Hints
from estimators.registry import ESTIMATORS
from estimators.rewards import rollout_scores


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    yield Input("bf16_rewards", "the group statistics were computed in bfloat16", _coarse, rows=True)
    text = "the rewards were rounded to bfloat16 before anything was computed"
    yield Input("bf16_rewards", text, _rounded, rows=True, shared=True)


_REWARDS = ("scores", "token_level_rewards", "token_level_scores")


def _rounded(setup: Setup) -> Setup | None:
    return once(setup, "bf16_rewards", _coarser)


def _coarser(batch: Batch) -> Batch | None:
    """The batch with its rewards rounded; None where that changes none."""
    changes: dict[str, Any] = {}
    for name in _REWARDS:
        value = getattr(batch, name)
        if value is not None:
            changes[name] = value.bfloat16().to(value.dtype)
    if all(
        torch.allclose(new, getattr(batch, name), 0.0, 0.0, equal_nan=True) for name, new in changes.items()
    ):
        return None
    return replace(batch, **changes)


def _coarse(setup: Setup) -> Setup | None:
    if not isinstance(setup.params, CentringParams) or setup.run is not None:
        return None
    estimator = setup.estimator

    def run(batch: Batch, params: Any, dtype: torch.dtype) -> Raw:
        fine = ESTIMATORS[estimator].run(batch, params, dtype)
        if fine.per_token:
            return fine
        return Raw(_statistics(batch, params, estimator, fine.advantages).to(dtype), per_token=False)

    return replace(setup, run=run)


def _statistics(batch: Batch, params: Any, estimator: str, fine: Tensor) -> Tensor:
    """Centred, and divided for `grpo`, in bfloat16, one rounding a step; `fine` where that says nothing."""
    scores = rollout_scores(batch, params).bfloat16()
    found = fine.clone()
    divided = estimator.startswith("grpo") and getattr(params, "scale_rewards", "group") == "group"
    divided &= bool(getattr(params, "norm_adv_by_std_in_grpo", True))
    for members in by_size(batch.group, torch.ones_like(batch.group, dtype=torch.bool)):
        own = scores[members]
        if own.shape[1] < 2:
            continue
        centred = own - own.mean(dim=1, keepdim=True)
        if divided:
            spread = own.std(dim=1, correction=getattr(params, "ddof", 1), keepdim=True)
            centred = centred / (spread + getattr(params, "epsilon", 0.0))
        known = torch.isfinite(own).all(dim=1)
        found[members[known]] = centred[known].to(found.dtype)
    return found


MISTAKE = Mistake(
    "bf16_rewards",
    "Rewards or their group statistics are kept in bfloat16, which loses small differences.",
    variants,
)
