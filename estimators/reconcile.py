"""Which convention, and which mistake, made the recorded advantages."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from estimators.batch import Batch
from estimators.conventions import CONVENTIONS, Convention
from estimators.estimate import estimate, missing
from estimators.reconcile_recorded import Fit, View
from estimators.reconciliation import Candidate, Hints, Reconciliation, Recorded, Verdict
from estimators.refused import Refused
from estimators.request import Request
from estimators.whitening import W_VERL, Whitening

__all__ = ["Candidate", "Hints", "Reconciliation", "Recorded", "Verdict", "reconcile"]

_GAMMAS, _LAMS = (1.0, 0.99), (1.0, 0.95, 0.9)
NO_HINTS = Hints()


@dataclass(frozen=True, slots=True)
class _Trial:
    convention: Convention
    params: Any
    whitening: Whitening
    kind: Any

    @property
    def request(self) -> Request:
        own = self.convention
        return Request(own.estimator, self.params, self.whitening, convention=own.name)


def reconcile(batch: Batch, recorded: Recorded, hints: Hints = NO_HINTS) -> Reconciliation:
    """Compares the recorded advantages with every convention that the batch allows."""
    view = View(batch, recorded)
    kind: Literal["token", "rollout"] = "token" if recorded.per_token else "rollout"
    if not int((view.counts > 0).sum()):
        return Reconciliation(kind, "nothing_recorded", (), "float64", "No advantage is recorded.")
    found: list[tuple[_Trial, Fit]] = []
    for trial in _trials(batch, hints):
        try:
            result = estimate(batch, trial.request)
        except Refused:
            continue
        found.append((trial, view.fit(result.advantages, result.per_token)))
    found.sort(key=lambda pair: (not pair[1].matched, pair[1].p99_abs_error, pair[0].kind != "own"))
    candidates = tuple(_candidate(trial, fit) for trial, fit in found[:10])
    matched = [each for each in candidates if each.matched]
    verdict: Verdict = "no_match" if not matched else "match" if len(matched) == 1 else "ambiguous"
    text = candidates[0].explanation if candidates else "No convention can be computed on this batch."
    return Reconciliation(kind, verdict, candidates, view.precision.name, text)


def _trials(batch: Batch, hints: Hints) -> Iterator[_Trial]:
    for convention in CONVENTIONS.values():
        for params in _settings(convention.params, hints):
            seen: list[Whitening] = []
            for kind, whitening in (("own", convention.whitening), ("none", Whitening()), ("other", W_VERL)):
                trial = _Trial(convention, params, whitening, kind)
                if whitening not in seen and not missing(batch, trial.request):
                    seen.append(whitening)
                    yield trial


def _settings(params: Any, hints: Hints) -> Iterator[Any]:
    known = {name: value for name, value in hints.params.items() if hasattr(params, name)}
    params = replace(params, **known)
    gammas = _GAMMAS if hasattr(params, "gamma") and "gamma" not in known else (None,)
    lams = _LAMS if hasattr(params, "lam") and "lam" not in known else (None,)
    for gamma in gammas:
        for lam in lams:
            given = {"gamma": gamma, "lam": lam}
            yield replace(params, **{name: value for name, value in given.items() if value is not None})


def _candidate(trial: _Trial, fit: Fit) -> Candidate:
    text = f"{trial.convention.name}: {trial.convention.note}"
    return Candidate(
        trial.convention.name,
        None,
        fit.matched,
        fit.max_abs_error,
        fit.p99_abs_error,
        fit.rollouts_matched,
        fit.rollouts,
        text,
        trial.kind,
        trial.request.to_dict(),
        (),
        tuple(fit.off.nan_to_num(-1.0).argsort(descending=True)[:20].tolist()) if not fit.matched else (),
    )
