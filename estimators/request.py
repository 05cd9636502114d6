"""A request for an estimate: which estimator, with which settings. The same request always reads the same."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from estimators.conventions import CONVENTIONS, Convention
from estimators.parameters import read_settings, settings_to_dict
from estimators.registry import ESTIMATORS
from estimators.whitening import Whitening

Precision = Literal["float64", "float32"]

#: How rollouts are grouped: as recorded, by equal prompt, every N in the order of the file, or as recorded
#: with ids taken as whole numbers where `int()` reads them all (`groups.integer_ids`).
GROUPINGS = ("group_id", "prompt", "stride:N", "integer_id")

_FIELDS = ("convention", "estimator", "params", "whitening", "precision", "grouping")


@dataclass(frozen=True, slots=True)
class Request:
    """`params` is the estimator's own dataclass. `grouping` is for the caller, who makes `Batch.group`."""

    estimator: str
    params: Any
    whitening: Whitening
    precision: Precision = "float64"
    grouping: str = "group_id"
    convention: str | None = None

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.precision == "float32" else torch.float64

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Request":
        """From the JSON body of the API. Raises ValueError naming field and remedy."""
        for name in given:
            if name not in _FIELDS:
                raise ValueError(f"A request has no {name!r}; it has {', '.join(_FIELDS)}.")
        convention = _convention(given.get("convention"))
        estimator, start = _start(given.get("estimator"), convention)
        whitening = convention.whitening if convention else Whitening()
        own, over = _aliased(_mapping(given, "params"), convention)
        params = read_settings(start, own, f"params of {convention.name if convention else estimator}")
        whitening = read_settings(whitening, {**over, **_mapping(given, "whitening")}, "whitening")
        precision: Any = given.get("precision", "float64")
        if precision not in ("float64", "float32"):
            raise ValueError(f"precision is {precision!r}; give float64 or float32.")
        chosen = convention.name if convention else None
        grouping = _grouping(given.get("grouping"), convention)
        return cls(estimator, params, whitening, precision, grouping, chosen)

    def to_dict(self) -> dict[str, Any]:
        """Everything spelt out; `from_dict` of it is this request again."""
        return {
            "convention": self.convention,
            "estimator": self.estimator,
            "params": settings_to_dict(self.params),
            "whitening": settings_to_dict(self.whitening),
            "precision": self.precision,
            "grouping": self.grouping,
        }


def _convention(name: Any) -> Convention | None:
    if name is None:
        return None
    if name not in CONVENTIONS:
        raise ValueError(f"There is no convention {name!r}; there are {', '.join(CONVENTIONS)}.")
    return CONVENTIONS[name]


def _start(name: Any, convention: Convention | None) -> tuple[str, Any]:
    """The estimator and the parameters that overrides start from."""
    if convention is not None:
        if name not in (None, convention.estimator):
            raise ValueError(
                f"{convention.name} uses the estimator {convention.estimator}, not {name!r}; drop one."
            )
        return convention.estimator, convention.params
    if name is None:
        raise ValueError("A request needs an estimator or a convention.")
    if name not in ESTIMATORS:
        raise ValueError(f"There is no estimator {name!r}; there are {', '.join(ESTIMATORS)}.")
    return str(name), ESTIMATORS[name].params()


def _mapping(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}; give an object of settings.")
    return value


def _aliased(
    params: Mapping[str, Any], convention: Convention | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration keys of the convention's framework put under our names: (params, whitening).

    Our own names win over the framework's, and keys are read in the convention's order, in whatever order
    they are given. Params that are all spelt out, as a request spells them, hold no key of a framework.
    """
    aliases = convention.aliases if convention else {}
    if convention and params.keys() >= settings_to_dict(convention.params).keys():
        aliases = {}
    own: dict[str, Any] = {}
    whitening: dict[str, Any] = {}
    for name, alias in aliases.items():
        if name in params:
            (whitening if alias.whitening else own).update(alias.settings(name, params[name]))
    read = {*aliases, *(convention.inert if convention else ())}
    return own | {name: value for name, value in params.items() if name not in read}, whitening


def _grouping(value: Any, convention: Convention | None) -> str:
    if value is None:
        return convention.grouping if convention else "group_id"
    if value in ("group_id", "prompt", "integer_id") or (
        isinstance(value, str) and re.fullmatch(r"stride:[1-9]\d{0,8}", value)
    ):
        return str(value)
    raise ValueError(
        f"grouping is {value!r}; give group_id, prompt, integer_id or stride:N with N of at least 1."
    )
