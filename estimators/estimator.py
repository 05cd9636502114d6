"""What an estimator is: a name, a formula, the parameters it takes and the function that computes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.parameters import settings_schema


@dataclass(frozen=True, slots=True)
class Raw:
    """Advantages before whitening. One number per rollout `[B]`, or per token `[N]` where `per_token`.

    `returns` `[N]` are the critic's targets, for estimators that have them. Masked tokens hold what the
    estimator's convention leaves there; NaN: undefined, because something it depends on was not recorded.
    """

    advantages: Tensor
    per_token: bool
    returns: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Estimator:
    """`needs` names the fields without which it cannot run (see `estimate.missing`)."""

    name: str
    sentence: str
    formula: str
    paper: str
    needs: tuple[str, ...]
    params: type[Any]
    run: Callable[[Batch, Any, torch.dtype], Raw]


def params_schema(estimator: Estimator) -> dict[str, Any]:
    """JSON Schema of the estimator's parameters with their defaults."""
    return settings_schema(estimator.params)
