"""One computation that is compared with what is recorded, and what was found of it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from estimators.conventions import Convention
from estimators.mistakes.mistake import Setup
from estimators.reconcile_recorded import Fit, View
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.shape import IDENTITY, Shape
from estimators.whitening import Affine, Whitening


@dataclass(frozen=True, slots=True)
class Found:
    """One computation that was compared. `means` `[B]`: what it gives each rollout on average; `order`: place
    in the search, the simplest first."""

    convention: Convention
    params: Any
    kind: str
    whitening: Whitening
    label: str | None
    text: str
    fit: Fit
    means: Tensor
    order: int


@dataclass(frozen=True, slots=True)
class Option:
    """What is done to raw advantages, and what that is called."""

    affine: Affine
    kind: str
    whitening: Whitening
    label: str | None = None
    text: str = ""


def in_single(view: View, setup: Setup, shape: Shape, option: Option, fit: Fit) -> Fit:
    """Rounding in a framework's single precision is no disagreement: the nearer of both counts."""
    if shape.raw.per_token:
        return fit
    run = setup.run or ESTIMATORS[setup.estimator].run
    try:
        raw = run(setup.batch, setup.params, torch.float32)
    except Refused:
        return fit
    exact = option.affine.apply(shape.raw.advantages)
    coarse = option.affine.apply(raw.advantages.double())
    target = view.per_rollout if view.per_rollout is not None else view.values
    nearer = (coarse - target).abs() < (exact - target).abs()
    better = view.fit(torch.where(nearer, coarse, exact), False, IDENTITY)
    return better if better.rollouts_matched > fit.rollouts_matched else fit
