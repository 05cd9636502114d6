"""What the configured convention can be set to besides what was configured: legal, whatever was meant."""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

from estimators.conventions import CONVENTIONS
from estimators.reconcile_found import Found
from estimators.reconciliation import Hints
from estimators.request import Request
from estimators.whitening import Whitening

#: Values that switches of frameworks have; each key takes those it knows.
_VALUES: tuple[Any, ...] = (True, False, "group", "batch", "none")
#: Our own names of the settings that an estimate of any convention takes.
_SWITCHES = ("norm_adv_by_std_in_grpo", "scale_rewards", "use_leave_one_out_baseline", "mean_leave1out")
#: Numbers, which true and false are no values of.
_SIZES = {"group_size", "group_count"}


def param_options(hints: Hints, params: Any) -> Iterator[Any]:
    """`params` of the configured convention with one switch set otherwise."""
    seen = [params]
    for changed, _ in _switched(hints.convention):
        other = replace(params, **changed)
        if other not in seen:
            seen.append(other)
            yield other


def whitening_options(hints: Hints) -> dict[str, tuple[tuple[str, Whitening], ...]]:
    """("other", setting) of each whitening that the configured convention has a switch for, by its name."""
    convention = CONVENTIONS.get(hints.convention or "")
    if convention is None:
        return {}
    settings = dict.fromkeys(setting for _, setting in _switched(hints.convention))
    settings.pop(convention.whitening, None)
    return {convention.name: tuple(("other", setting) for setting in settings)}


@cache
def _switched(name: str | None) -> tuple[tuple[dict[str, Any], Whitening], ...]:
    """What each switch of the convention changes: of its parameters, and the whitening then."""
    convention = CONVENTIONS.get(name or "")
    if convention is None:
        return ()
    found = []
    keys = (*convention.aliases, *(each for each in _SWITCHES if hasattr(convention.params, each)))
    for key in keys:
        for value in _VALUES:
            try:
                request = Request.from_dict({"convention": name, "params": {key: value}})
            except ValueError:
                continue
            own = {each.name: getattr(request.params, each.name) for each in fields(request.params)}
            changed = {each: new for each, new in own.items() if new != getattr(convention.params, each)}
            if not changed.keys() & _SIZES:
                found.append((changed, request.whitening))
    return tuple(found)


def as_option(found: Found, hints: Hints) -> Found:
    """A mistake in a setting that the configured convention has is that setting, and no mistake."""
    label, convention = found.label or "", found.convention
    if convention.name != hints.convention or not label.startswith(("wrong_eps:", "wrong_ddof:")):
        return found
    name = "epsilon" if label.startswith("wrong_eps") else "ddof"
    if name == "ddof" and not any(alias.target == name for alias in convention.aliases.values()):
        return found
    if getattr(found.params, name, None) != getattr(convention.params, name, None):
        return replace(found, label=None, text="")
    number = float(label.split(":")[1])
    inside = {"eps": number} if name == "epsilon" else {"ddof": int(number)}
    return replace(found, label=None, text="", whitening=replace(found.whitening, **inside))
