"""The form that asks for another estimate, and what it means when it is sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.errors import Unprocessable
from app.estimation import has, outline_of
from estimators import CONVENTIONS, ESTIMATORS, Request, Whitening, missing, params_schema, settings_schema
from storage.models import Batch

#: Whitening settings that the form shows; the others keep what the convention says.
WHITENING = ("scope", "unit", "ddof", "eps", "eps_placement", "shift_mean", "zero_masked")
CHOICES_OF_FLAG = ("true", "false")


@dataclass(frozen=True, slots=True)
class Setting:
    """One input: a list to choose from where there are `choices`, else text. `default` as it is typed."""

    name: str
    says: str
    default: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConventionChoice:
    """`lacks`: fields that it needs and the batch does not have; then it cannot be asked for."""

    name: str
    estimator: str
    note: str
    agrees: str
    lacks: tuple[str, ...]
    whitening: str


@dataclass(frozen=True, slots=True)
class EstimatorSettings:
    name: str
    sentence: str
    formula: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class RequestForm:
    conventions: tuple[ConventionChoice, ...]
    estimators: tuple[EstimatorSettings, ...]
    whitening: tuple[Setting, ...]
    precisions: tuple[str, ...] = ("float64", "float32")


def form_for(batch: Batch) -> RequestForm:
    """Every convention, with what this batch lacks for it; the settings of the estimators behind them."""
    return form_with(frozenset(name for name in batch.fields if has(batch.fields, name)))


@lru_cache(maxsize=64)
def form_with(recorded: frozenset[str]) -> RequestForm:
    """The form for batches with these fields."""
    outline = outline_of(dict.fromkeys(recorded, "recorded"))
    conventions = tuple(
        ConventionChoice(
            name=name,
            estimator=convention.estimator,
            note=convention.note,
            agrees=" ".join(part for part in (convention.framework, convention.version) if part),
            lacks=missing(outline, Request.from_dict({"convention": name})),
            whitening=convention.whitening.scope,
        )
        for name, convention in CONVENTIONS.items()
    )
    used = dict.fromkeys(choice.estimator for choice in conventions)
    estimators = tuple(
        EstimatorSettings(name, ESTIMATORS[name].sentence, ESTIMATORS[name].formula, settings_of(params))
        for name in used
        for params in [params_schema(ESTIMATORS[name])]
    )
    whitening = settings_schema(Whitening)["properties"]
    shown = {name: whitening[name] for name in WHITENING}
    return RequestForm(conventions, estimators, settings_of({"properties": shown}))


def settings_of(schema: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Inputs for the properties of a JSON Schema that a form can hold (no mappings)."""
    return tuple(
        Setting(name, str(told.get("description", "")), typed(told["default"]), choices_of(told))
        for name, told in schema["properties"].items()
        if told.get("type") != "object"
    )


def choices_of(told: Mapping[str, Any]) -> tuple[str, ...]:
    if told.get("type") == "boolean":
        return CHOICES_OF_FLAG
    options = told.get("anyOf", [told])
    listed = [value for option in options for value in option.get("enum", [])]
    return tuple(typed(value) for value in listed) if all("enum" in option for option in options) else ()


def typed(value: Any) -> str:
    """A value as somebody would type it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def body_of(form: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The API's request body of a sent form. Empty inputs keep what the convention says.

    Names: `convention`, `precision`, `grouping`, `params.<estimator>.<name>`, `whitening.<name>`. Settings of
    other estimators than the convention's are left aside. Raises Unprocessable where no convention is named.
    """
    values = {name: value.strip() for name, value in form if value.strip()}
    convention = CONVENTIONS.get(values.get("convention", ""))
    if convention is None:
        raise Unprocessable("Choose a convention from the list; the estimate is computed as it says.")
    body: dict[str, Any] = {"convention": convention.name}
    own = f"params.{convention.estimator}."
    for name, value in values.items():
        if name.startswith(own):
            body.setdefault("params", {})[name.removeprefix(own)] = read(value)
        elif name.startswith("whitening."):
            body.setdefault("whitening", {})[name.removeprefix("whitening.")] = read(value)
        elif name in ("precision", "grouping"):
            body[name] = value
    return body


def read(text: str) -> Any:
    """What was typed: JSON where it is JSON (numbers, true, null, lists), else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
