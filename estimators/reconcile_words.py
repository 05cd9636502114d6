"""The words of a reconciliation: each candidate and the verdict as sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from estimators.conventions import CONVENTIONS
from estimators.estimate import missing
from estimators.mistakes.mistake import in_file_order, same_partition
from estimators.reconcile_configured import contradictions
from estimators.reconcile_formulas import formulas
from estimators.reconcile_found import Found
from estimators.reconcile_search import Search
from estimators.reconciliation import Candidate, Reconciliation, Recorded
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.request import Request
from estimators.whitening import Whitening

_FAILING = 20
#: So many conventions are named in one sentence.
_NAMED = 6
#: What the sentence of a mistake says already.
_SAID = ("epsilon", "ddof", "group_size", "group_count", "incomplete", "segments")
_SYMBOLS = {"gamma": "γ", "lam": "λ", "epsilon": "ε"}


def nothing(recorded: Recorded) -> Reconciliation:
    text = "The file records no advantage for an unmasked token, so there is nothing to compare."
    return Reconciliation(
        "token" if recorded.per_token else "rollout", "nothing_recorded", (), "float64", text
    )


def candidate(
    found: Found, search: Search, matched: bool, same_as: tuple[str, ...] = (), proved: bool = False
) -> Candidate:
    fit = found.fit
    order = fit.off.masked_fill(fit.agrees, -1.0).nan_to_num(-1.0).argsort(descending=True, stable=True)
    failing = [row for row in order[:_FAILING].tolist() if not bool(fit.agrees[row]) and fit.off[row] >= 0]
    return Candidate(
        found.convention.name,
        found.label,
        matched,
        fit.max_abs_error,
        fit.p99_abs_error,
        fit.rollouts_matched,
        fit.rollouts,
        _sentence(found, search),
        found.kind,  # type: ignore[arg-type] # one of the three words
        _request(found),
        same_as,
        tuple(failing),
        contradictions(found, search.hints) if matched else (),
        proved,
    )


def _request(found: Found) -> dict[str, Any]:
    grouping = "group_id"
    if found.label is not None and found.label.startswith("stride_grouping:"):
        size = found.label.split(":")[1]
        grouping = "stride:" + size if size.isdigit() else grouping
    elif found.label == "prompt_grouping":
        grouping = "prompt"
    convention = found.convention
    return Request(
        convention.estimator, found.params, found.whitening, grouping=grouping, convention=convention.name
    ).to_dict()


def _sentence(found: Found, search: Search) -> str:
    text = found.convention.name + _settings(found, search)
    if found.kind == "none":
        text += " before its whitening"
    elif found.kind == "other":
        text += f", then whitened {_kernel(found.whitening)}"
    if found.label is not None:
        return f"As {text}, but {found.text}."
    return f"{text}: {found.convention.note}"


def _settings(found: Found, search: Search) -> str:
    """The parameters that are not the convention's own, or that the file says otherwise."""
    own, hints, parts = found.convention.params, search.hints.params, []
    for each in fields(found.params):
        value = getattr(found.params, each.name)
        if value == getattr(own, each.name, value) and each.name not in ("gamma", "lam"):
            continue
        if (found.label is not None and each.name in _SAID) or _idle(found, search, each.name):
            continue
        said = hints.get(each.name)
        shown = f"{_SYMBOLS.get(each.name, each.name)} {_words(value)}"
        if isinstance(said, float | int) and isinstance(value, float | int) and said != value:
            shown += f" (the file says {_words(said)})"
        parts.append(shown)
    return f" with {', '.join(parts)}" if parts else ""


def _idle(found: Found, search: Search, name: str) -> bool:
    """Whether the parameter changes nothing on this batch against the convention's own."""
    if name in ("gamma", "lam"):
        return False
    part, params = search.whole.part, found.params
    size = getattr(params, "group_size", None)
    if size is not None and same_partition(in_file_order(search.batch) // size, search.batch.group):
        if name in ("group_size", "group_count", "incomplete"):
            return True
        params = replace(params, group_size=None, group_count=None)
    elif name == "group_size":
        return False
    run, own = ESTIMATORS[found.convention.estimator].run, getattr(found.convention.params, name)
    try:
        one, other = (run(part, each, torch.float64) for each in (params, replace(params, **{name: own})))
    except Refused:
        return False
    same_kind = one.advantages.shape == other.advantages.shape
    return same_kind and bool(torch.allclose(one.advantages, other.advantages, 1e-9, 1e-12, equal_nan=True))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_words(inner)}" for name, inner in value.items()) + ")"
    if value is None or isinstance(value, bool):
        return {True: "on", False: "off", None: "none"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _kernel(setting: Whitening) -> str:
    scope = {"group": "inside each group", "data_source": "inside each task"}.get(
        setting.scope, "over the batch"
    )
    unit = ", each rollout once" if setting.unit == "response" else ""
    scale = f"ddof {setting.ddof}, ε {setting.eps:g}" if setting.scale else "mean only"
    return f"{scope} ({scale}{unit})"


def summary(verdict: str, candidates: Sequence[Candidate], tied: int) -> str:
    """The verdict where something agrees."""
    first = candidates[0]
    if verdict == "match":
        return first.explanation
    names = list(dict.fromkeys(each.convention for each in candidates[:tied]))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    several = ", ".join(names[:_NAMED]) + more
    mistakes = list(dict.fromkeys(each.mistake for each in candidates[:tied] if each.mistake))
    also = f" So would {', '.join(mistakes[1:_NAMED])}." if len(mistakes) > 1 else ""
    return f"The numbers fit {tied} candidates equally well ({several}). {first.explanation}{also}"


def unexplained(search: Search, candidates: Sequence[Candidate]) -> str:
    """The verdict where nothing agrees: how far off what was configured is, what comes nearest, and what was
    tried."""
    own = search.configured
    parts = ["Nothing in the catalogue gives these numbers"]
    if not candidates:
        parts[0] += ", nor anything like them."
        return f"{parts[0]} {_tried(search)}"
    told = [each for each in candidates if own is None or each.convention != own.convention.name]
    parts[0] += _nearest(told[0]) if told else "."
    if own is not None:
        fit = own.fit
        parts.append(
            f"{own.convention.name} as configured agrees on {fit.rollouts_matched} of {fit.rollouts} "
            f"rollouts and is off by up to {fit.max_abs_error:.3g}; all fields that it needs are recorded."
        )
    return " ".join([*parts, _tried(search)])


def _nearest(first: Candidate) -> str:
    near = f"on {first.rollouts_matched} of {first.rollouts} rollouts"
    name = first.convention + (f" with {first.mistake}" if first.mistake else "")
    if 2 * first.rollouts_matched < first.rollouts:
        text = ", with or without a known mistake, nor anything like them: even what comes nearest"
        return f"{text}, {name}, agrees {near} only."
    return f". Nearest comes {name}, which agrees {near} and is off by up to {first.max_abs_error:.3g}."


def _tried(search: Search) -> str:
    """What was computed, and what could not be for lack of which fields."""
    tried = {each.name for formula in formulas(search.batch, search.hints) for each in formula.conventions}
    text = f"Tried: {len(tried)} conventions with their settings, each right and with each known mistake"
    lacking: dict[str, None] = {}
    for name in CONVENTIONS.keys() - tried:
        lacking |= dict.fromkeys(missing(search.batch, Request.from_dict({"convention": name})))
    if not lacking:
        return f"{text}."
    more = len(CONVENTIONS) - len(tried)
    return f"{text}; {more} others need {', '.join(sorted(lacking)[:_NAMED])}, which is not recorded."
