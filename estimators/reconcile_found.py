"""One computation that is compared with what is recorded, and what was found of it."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from estimators.conventions import Convention
from estimators.reconcile_recorded import Fit
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
