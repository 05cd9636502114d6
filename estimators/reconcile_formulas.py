"""The catalogue as formulas to try: conventions with one formula and the same settings are tried once."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from estimators.batch import Batch
from estimators.conventions import CONVENTIONS, Convention
from estimators.estimate import missing
from estimators.membership import MembershipParams
from estimators.mistakes.mistake import Setup
from estimators.reconcile_options import param_options
from estimators.reconciliation import Hints
from estimators.request import Request
from estimators.whitening import Scope, Whitening

#: Scopes besides their own that conventions are tried with.
_SCOPES: tuple[Scope, ...] = ("batch", "group", "data_source")


@dataclass(frozen=True, slots=True)
class Formula:
    """An estimator with parameters, `key` in one text, and the conventions, in the catalogue's order, that
    are this before whitening."""

    estimator: str
    params: Any
    conventions: tuple[Convention, ...]
    key: str


def formulas(batch: Batch, hints: Hints) -> list[Formula]:
    """Those that the batch has the fields for: with what the hints configure, then, as the trainer may not
    have done what was configured, without that."""
    found: dict[str, Formula] = {}
    as_hinted = [(each, configured(each, hints)) for each in CONVENTIONS.values()]
    as_named = [(each, each.params) for each, params in as_hinted if params != each.params]
    own = [(each, params) for each, params in as_hinted if each.name == hints.convention]
    options = [(each, other) for each, params in own for other in param_options(hints, params)]
    for convention, params in (*as_hinted, *as_named, *options):
        if missing(batch, Request(convention.estimator, params, Whitening(), convention=convention.name)):
            continue
        key = f"{convention.estimator} {params!r}"
        same = found[key].conventions if key in found else ()
        found[key] = Formula(convention.estimator, params, (*same, convention), key)
    return list(found.values())


def configured(convention: Convention, hints: Hints) -> Any:
    """The convention's parameters with the hints that it knows; a hint it cannot take is left out."""
    params = convention.params
    for name, value in hints.params.items():
        try:
            request = Request.from_dict({"convention": convention.name, "params": {name: value}})
        except ValueError:
            continue
        own = {f.name: getattr(request.params, f.name) for f in fields(params)}
        changed = {key: new for key, new in own.items() if new != getattr(convention.params, key)}
        params = replace(params, **changed)
    return params


@cache
def kernels() -> tuple[Whitening, ...]:
    """Every whitening of the catalogue, over each scope."""
    found: dict[Whitening, None] = {}
    for convention in CONVENTIONS.values():
        if convention.whitening.scope == "batch":
            found[convention.whitening] = None
    found |= dict.fromkeys((Whitening("batch", scale=False), Whitening("batch", "response", scale=False)))
    return tuple(replace(kernel, scope=scope) for scope in _SCOPES for kernel in found)


def whitenings(convention: Convention) -> Iterator[tuple[str, Whitening]]:
    """("own" | "none" | "other", setting): as the convention whitens, before that, and with other kernels."""
    yield "own", convention.whitening
    if convention.whitening.scope != "none":
        yield "none", Whitening()
    for kernel in kernels():
        if kernel != convention.whitening:
            yield "other", kernel


def compares(formula: Formula | Setup) -> bool:
    """Whether the formula compares the rollouts of a group."""
    return isinstance(formula.params, MembershipParams) or formula.estimator.endswith("token_baseline")
