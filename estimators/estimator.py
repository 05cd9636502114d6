"""What an estimator is: a name, a formula, the parameters it takes and the function that computes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.inputs import Inputs
from estimators.parameters import settings_schema

#: What an estimator keeps from one step of a run to the next: some numbers by name.
State = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Raw:
    """Advantages before whitening. One number per rollout `[B]`, or per token `[N]` where `per_token`.

    `returns` `[N]` are the critic's targets, for estimators that have them. Masked tokens hold what the
    estimator's convention leaves there; NaN: undefined, because something it depends on was not recorded.
    Whitening neither looks at the rollouts `apart` `[B]` bool nor changes them. Where it counts every rollout
    once, `all_vote` says that those without an unmasked token count too: frameworks whiten one number per
    rollout before they look at any mask. `spoilt` `[B]` bool: advantages that a recorded NaN or infinity left
    without a number, and whitening with them.
    """

    advantages: Tensor
    per_token: bool
    returns: Tensor | None = None
    apart: Tensor | None = None
    all_vote: bool = False
    spoilt: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Estimator:
    """`needs` names the fields without which it cannot run (see `estimate.missing`).

    One with `carry` depends on the earlier steps of the run: `carry(batch, params, state)` gives the state
    after a batch, and `run` takes the state after the earlier ones as its last argument.
    `sees(batch, params, dtype)` gives what advantages per token depend on: where that is the same, so are
    they; None where it is not told. It refuses as `run` does.
    """

    name: str
    sentence: str
    formula: str
    paper: str
    needs: tuple[str, ...]
    params: type[Any]
    run: Callable[..., Raw]
    carry: Callable[[Batch, Any, State], State] | None = None
    sees: Callable[[Batch, Any, torch.dtype], Inputs | None] | None = None


def params_schema(estimator: Estimator) -> dict[str, Any]:
    """JSON Schema of the estimator's parameters with their defaults."""
    return settings_schema(estimator.params)
