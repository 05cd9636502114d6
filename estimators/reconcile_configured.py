"""What the file says was configured: computed first, exactly as an estimate would be, and compared."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.conventions import CONVENTIONS, Convention
from estimators.estimate import Result, estimate, missing
from estimators.masked import segment_sums
from estimators.mistakes.mistake import rows_changed
from estimators.reconcile_found import Found
from estimators.reconcile_noise import nearest, shaken
from estimators.reconcile_recorded import Fit, View
from estimators.reconcile_search import Search
from estimators.reconciliation import Contradiction, Hints
from estimators.refused import Refused
from estimators.request import Request
from estimators.shape import IDENTITY

#: What a run chooses for itself: a framework's own default says nothing of a run that does not name it.
_CHOSEN = ("gamma", "lam", "kl_coef", "reward_weights", "group_size", "group_count")
#: A batch whose advantages are further off than this part of their size is not computed once more in float32.
_FAR = 0.05


def request_of(hints: Hints) -> Request | None:
    """The request that the hints configure, every parameter as an estimate takes it; one that the convention
    does not take is left out. None where no convention is configured."""
    if hints.convention is None or hints.convention not in CONVENTIONS:
        return None
    taken: dict[str, Any] = {}
    try:
        return _request(hints.convention, hints.params)
    except ValueError:
        pass
    for name, value in hints.params.items():
        try:
            _request(hints.convention, {**taken, name: value})
        except ValueError:
            continue
        taken[name] = value
    return _request(hints.convention, taken)


def _request(convention: str, params: Mapping[str, Any]) -> Request:
    return Request.from_dict({"convention": convention, "params": params})


def as_configured(search: Search, hints: Hints) -> Found | None:
    """What the configured request gives, and how near it comes to what is recorded; None where none is
    configured or the batch does not allow it."""
    request, batch = request_of(hints), search.batch
    if hints.group is not None:
        batch = rows_changed(batch, group=hints.group)
    if request is None or missing(batch, request):
        return None
    try:
        result = estimate(batch, request)
    except Refused:
        return None
    fit = _fit(search, batch, request, result)
    what = "own", request.whitening, None, ""
    convention = CONVENTIONS[request.convention or ""]
    return Found(convention, request.params, *what, fit, result.summaries.mean, len(search.found))


def _fit(search: Search, batch: Batch, request: Request, result: Result) -> Fit:
    view = search.view
    exact, per_token = compared(view, batch, result)
    fit = view.fit(exact, per_token, IDENTITY)
    moved = shaken(batch) if search.small or not per_token else None
    if fit.matched or (moved is None and fit.rms > _FAR * max(view.scale, 1e-12)):
        return fit
    other = None if moved is None else _again(view, moved, request)
    single = _again(view, batch, replace(request, precision="float32"))
    better = nearest(view, per_token, exact, _alike(single, exact), _alike(other, exact))
    return better if better.rollouts_matched > fit.rollouts_matched else fit


def _again(view: View, batch: Batch, request: Request) -> Tensor | None:
    try:
        return compared(view, batch, estimate(batch, request))[0]
    except Refused:
        return None


def _alike(found: Tensor | None, exact: Tensor) -> Tensor | None:
    return found if found is not None and found.shape == exact.shape else None


def compared(view: View, batch: Batch, result: Result) -> tuple[Tensor, bool]:
    """The numbers that are compared, and whether they are per token: the mean of a rollout where one number
    is recorded of it."""
    if not result.per_token or view.recorded.per_token:
        return result.advantages, result.per_token
    kept = torch.where(batch.response_mask, result.advantages.double(), 0.0)
    return segment_sums(kept, batch.offsets) / batch.unmasked.clamp(min=1), False


def equals(found: Found) -> tuple[str, ...]:
    """Other conventions of the catalogue that are the same formula with the same settings."""
    own = found.convention
    others = (each for each in CONVENTIONS.values() if each is not own and each.estimator == own.estimator)
    return tuple(
        each.name for each in others if each.params == found.params and each.whitening == found.whitening
    )


def contradictions(found: Found, hints: Hints) -> tuple[Contradiction, ...]:
    """The settings by which the recorded numbers are the configured convention's, but are not those that were
    configured. A setting that nobody named and a run chooses for itself contradicts nothing."""
    request = request_of(hints)
    if request is None or found.label is not None or found.convention.name != hints.convention:
        return ()
    said = _said(found.convention, hints.params)
    pairs = [(each.name, request.params, found.params) for each in fields(request.params)]
    if found.kind != "none":
        pairs += [(each.name, request.whitening, found.whitening) for each in fields(request.whitening)]
    elif any(name.startswith("whitening.") for name in said):
        pairs += [("scope", request.whitening, found.whitening)]
    listed = []
    for name, configured, recorded in pairs:
        shown = name if configured is request.params else f"whitening.{name}"
        one, other = getattr(configured, name), getattr(recorded, name)
        if one != other and (shown in said or shown not in _CHOSEN):
            listed.append(Contradiction(shown, one, other, shown in said))
    return tuple(listed)


def _said(convention: Convention, params: Mapping[str, Any]) -> set[str]:
    """Names of the settings that the configured parameters set, those of the whitening after `whitening.`"""
    found: set[str] = set()
    for name, value in params.items():
        alias = convention.aliases.get(name)
        if alias is None:
            found.add(name)
            continue
        try:
            settings = alias.settings(name, value)
        except ValueError:
            continue
        found |= {f"whitening.{each}" if alias.whitening else each for each in settings}
    return found
