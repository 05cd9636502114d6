"""What every estimator takes: rollouts that were cut off, and how the loss is averaged."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from estimators.batch import ROLLOUT_FIELDS, TOKEN_FIELDS, Batch
from estimators.loss_weights import loss_weights
from estimators.masked import compress, repeated
from estimators.parameters import About

LossAggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
    "dapo",
    "dr_grpo",
    "trl-grpo",
    "trl-bnpo",
    "trl-dapo",
    "trl-luspo",
    "token_mean",
    "sequence_mean",
    "seq_mean_token_sum_norm",
    "prompt_mean",
]


@dataclass(frozen=True, slots=True)
class EveryParams:
    """Settings that have nothing to do with the estimator's formula."""

    truncation: Annotated[
        Literal["keep", "mask", "drop"],
        About(
            "rollouts marked truncated: keep; mask, out of the loss and of whitening, but their reward still "
            "counts in the group; drop, as if they were not in the batch"
        ),
    ] = "keep"
    loss_agg_mode: Annotated[
        LossAggregation | None,
        About(
            "advantages times the weight that this averaging of the loss gives their token; null: as they are"
        ),
    ] = None
    loss_scale_factor: Annotated[
        float | None,
        About(
            "divisor of the modes that have a constant one; null: the longest rollout of the batch", 1e-300
        ),
    ] = None


def weighted(advantages: Tensor, per_token: bool, batch: Batch, params: EveryParams) -> Tensor:
    """`advantages` (`[N]` if `per_token`, else `[B]`) times the loss weight of their rollout, masked tokens
    too."""
    assert params.loss_agg_mode is not None
    own = loss_weights(batch, params.loss_agg_mode, params.loss_scale_factor).to(advantages.dtype)
    return advantages * (repeated(own, batch.lengths) if per_token else own)


def in_loss(batch: Batch, params: EveryParams) -> Batch:
    """The batch with the tokens masked that `truncation: mask` takes out of the loss."""
    if params.truncation != "mask" or batch.truncated is None or not bool(batch.truncated.any()):
        return batch
    return replace(batch, response_mask=batch.response_mask & ~repeated(batch.truncated, batch.lengths))


def kept(batch: Batch, params: EveryParams) -> Tensor | None:
    """`[B]` bool: the rollouts that `truncation: drop` leaves; None where all stay."""
    if params.truncation != "drop" or batch.truncated is None or not bool(batch.truncated.any()):
        return None
    return ~batch.truncated


def take(batch: Batch, keep: Tensor) -> Batch:
    """The batch of the rollouts `keep` `[B]` bool only, their tokens closed up."""
    tokens = repeated(keep, batch.lengths)
    offsets = torch.nn.functional.pad(torch.cumsum(batch.lengths[keep], 0), (1, 0))
    changed: dict[str, Any] = {"offsets": offsets, "response_mask": compress(batch.response_mask, tokens)}
    for name in TOKEN_FIELDS:
        value = getattr(batch, name)
        changed[name] = None if value is None else compress(value, tokens)
    others = {each.name for each in fields(batch)} - {*changed, "derived"}
    for name in {*ROLLOUT_FIELDS, "group", "scores"} | others:
        value = getattr(batch, name)
        if isinstance(value, Tensor) and value.shape[:1] == keep.shape:
            changed[name] = value[keep]
    changed["components"] = {name: column[keep] for name, column in batch.components.items()}
    return replace(batch, **changed)
