"""Sliders of the page of comparisons: those parameters of the estimate in use that are worth turning."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.figures.chosen import Chosen
from storage.models import Batch

#: What of an estimate's request is asked for again.
ASKED = ("convention", "params", "whitening", "precision", "grouping")


@dataclass(frozen=True, slots=True)
class Range:
    """A slider from `low` to `high` in steps; with `log` these are powers of ten."""

    label: str
    says: str
    low: float
    high: float
    step: float
    log: bool = False


#: Parameters by their path in a request.
RANGES = {
    "params.gamma": Range("γ", "discount of what comes later", 0.9, 1.0, 0.001),
    "params.lam": Range("λ", "how far a TD error reaches back", 0.0, 1.0, 0.005),
    "params.epsilon": Range("ε", "added to the spread of a group", -12.0, 0.0, 0.25, log=True),
    "params.kl_coef": Range("β", "weight of the KL penalty", 0.0, 0.2, 0.001),
    "whitening.eps": Range(
        "whitening ε", "keeps the division by a small σ in bounds", -12.0, 0.0, 0.25, log=True
    ),
}
#: Whitening scopes that a slider's user may want, and the field without which there is no such scope.
SCOPES = {
    "none": ("not whitened", None),
    "group": ("within the group", "group_id"),
    "batch": ("over the batch", None),
    "data_source": ("over each data source", "data_source"),
}

#: What counts once in a scope's mean and std.
UNITS = (("token", "each token once"), ("response", "each response once"))


@dataclass(frozen=True, slots=True)
class Slider:
    """`place`: where it stands on the axis `low` … `high`; `value`: the parameter itself."""

    name: str
    range: Range
    low: float
    high: float
    place: float
    value: float


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    value: str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`request`: what was asked for, as the API takes it. `ghost`: the advantages to compare with."""

    request: str
    ghost: str
    sliders: tuple[Slider, ...]
    choices: tuple[Choice, ...]


def what_if(batch: Batch, chosen: Chosen, against: str | None) -> WhatIf | None:
    """None where what is shown was recorded: only what was computed here can be computed otherwise."""
    if chosen.estimate is None:
        return None
    request = chosen.request
    sliders = tuple(
        slider(name, value)
        for name in RANGES
        if (value := at(request, name)) is not None and worth(name, value)
    )
    asked = {name: request[name] for name in ASKED if request.get(name) is not None}
    if "convention" not in asked:
        asked["estimator"] = request["estimator"]
    return WhatIf(json.dumps(asked), against or chosen.estimate.id, sliders, choices(batch, request))


def at(request: Mapping[str, Any], name: str) -> float | None:
    part, _, key = name.partition(".")
    value = request.get(part, {}).get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def worth(name: str, value: float) -> bool:
    """A penalty that is off changes nothing."""
    return name != "params.kl_coef" or value > 0


def slider(name: str, value: float) -> Slider:
    """The slider where it stands now; its axis is made longer where the value lies beyond it."""
    axis = RANGES[name]
    place = (math.log10(value) if value > 0 else axis.low) if axis.log else value
    return Slider(name, axis, min(axis.low, place), max(axis.high, place), place, value)


def choices(batch: Batch, request: Mapping[str, Any]) -> tuple[Choice, ...]:
    whitening = request["whitening"]
    scopes = tuple(
        (key, words)
        for key, (words, needs) in SCOPES.items()
        if needs is None or batch.fields.get(needs) or key == whitening["scope"]
    )
    if whitening["scope"] not in SCOPES:
        scopes += ((whitening["scope"], whitening["scope"]),)
    return (
        Choice("whitening.scope", "whitened", scopes, whitening["scope"]),
        Choice("whitening.ddof", "ddof", (("0", "0"), ("1", "1")), str(whitening["ddof"])),
        Choice("whitening.unit", "counting", UNITS, whitening["unit"]),
    )
