"""How captions name advantages and whitening settings: with ddof and eps wherever a std is in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.figures.chosen import RECORDED, Chosen
from app.formatting import number

#: Parameters of estimators that are worth a word in a caption, and how they are written there.
SAID = {"gamma": "γ", "lam": "λ", "epsilon": "eps", "ddof": "ddof"}
#: Differences that a short name has room for.
MOST_TOLD = 3


def stated(chosen: Chosen) -> str:
    """The advantages with their parameters: "gae/verl (recomputed; γ 1, λ 0.95; whitened over batch, …)"."""
    request = chosen.request
    if not request:
        return chosen.label
    params = request.get("params") or {}
    said = [
        f"{word} {params[name]:g}" for name, word in SAID.items() if isinstance(params.get(name), int | float)
    ]
    whitening = request.get("whitening") or {}
    if whitening.get("scope", "none") != "none":
        said.append(f"whitened over {words(whitening['scope'])}, {setting(whitening)}")
    return chosen.label if not said else chosen.label.replace(")", f"; {', '.join(said)})")


def told_apart(several: Sequence[Chosen]) -> list[str]:
    """A short name for each: "grpo/verl", "recorded"; of those with the same one, with what they differ in:
    "gae/verl λ 0.3", "gae/verl λ 0.95, each response once"."""
    names = [_name(each) for each in several]
    facts = [_facts(each.request) for each in several]
    told = []
    for name, own in zip(names, facts, strict=True):
        others = [fact for other, fact in zip(names, facts, strict=True) if other == name]
        differs = [key for key in own if any(key in fact and fact[key] != own[key] for fact in others)]
        said = ", ".join(_said(key, own[key]) for key in differs[:MOST_TOLD])
        told.append(f"{name} {said}" if said else name)
    return told


def _name(chosen: Chosen) -> str:
    if chosen.estimate is None:
        return RECORDED
    return chosen.estimate.convention or chosen.estimate.estimator


def _facts(request: Mapping[str, Any]) -> dict[str, Any]:
    """All that was asked for under one name each; what is in a caption first."""
    params, whitening = dict(request.get("params") or {}), dict(request.get("whitening") or {})
    first = {name: params.pop(name) for name in SAID if name in params}
    scope = {"whitening": whitening.pop("scope", "none")}
    inside = (
        {f"whitening {name}": value for name, value in whitening.items()}
        if scope["whitening"] != "none"
        else {}
    )
    rest = {name: request[name] for name in ("precision", "grouping") if name in request}
    return first | scope | inside | rest | params


def _said(name: str, value: Any) -> str:
    if name == "whitening":
        return "not whitened" if value == "none" else f"whitened over {words(value)}"
    if name in SAID and isinstance(value, int | float):
        return f"{SAID[name]} {number(value)}"
    return f"{name} {number(value) if isinstance(value, float) else value}"


def setting(whitening: dict[str, Any]) -> str:
    """`by token, ddof 1, eps 1e-08 under the root`"""
    placement = {
        "added": "added to the std",
        "under_root": "under the root",
        "floor": "as floor of the variance",
    }
    return (
        f"by {whitening.get('unit', 'token')}, ddof {whitening.get('ddof', 1)}, "
        f"eps {whitening.get('eps', 1e-8):g} {placement[whitening.get('eps_placement', 'under_root')]}"
    )


def words(scope: str) -> str:
    """A scope as text."""
    return {
        "data_source": "each data source",
        "group": "each group",
        "batch": "the batch",
        "rank": "each rank",
    }.get(scope, "the run so far" if scope == "running" else scope)
