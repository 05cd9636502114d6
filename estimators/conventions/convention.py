"""What a named convention is: data, an estimator with its parameters and a whitening."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimators.whitening import Whitening


@dataclass(frozen=True, slots=True)
class Alias:
    """A configuration key of the framework: it sets `target` of the params, or of the whitening."""

    target: str
    whitening: bool = False
    negate: bool = False


@dataclass(frozen=True, slots=True)
class Convention:
    """`params` is the estimator's parameter dataclass; `framework` and `version` say with whom it agrees."""

    name: str
    estimator: str
    params: Any
    whitening: Whitening
    framework: str | None
    version: str | None
    note: str
    aliases: Mapping[str, Alias] = field(default_factory=dict)
