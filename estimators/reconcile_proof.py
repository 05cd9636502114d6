"""Which mistakes the recorded numbers prove, which only fit them, and which rounding may have made."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from estimators.conventions import CONVENTIONS
from estimators.mistakes.mistake import Setup
from estimators.reconcile_configured import request_of
from estimators.reconcile_formulas import configured
from estimators.reconcile_found import Found
from estimators.reconcile_noise import in_single
from estimators.reconcile_recorded import Fit, View
from estimators.reconcile_search import Search
from estimators.shape import Shape
from estimators.whitening import Whitening

#: A mistake has to move a number by so many times what an error may be.
TIMES = 10.0
#: How much rewards of groups must differ in their spread to tell a setting from a factor.
_APART = 1e-2
#: Mistakes that are a constant fitted to the numbers, and those that are a setting which others have.
FITTED = ("scaled", "offset", "sign_flipped:")
SETTINGS = ("wrong_eps", "wrong_ddof")
#: Parameters that are read off the numbers.
_FOUND = ("gamma", "lam", "kl_coef")


def fitted(label: str | None) -> bool:
    return (label or "").startswith(FITTED)


def constants(label: str | None) -> int:
    """How many numbers a label has that were fitted."""
    return 0 if not fitted(label) else 1 + (label or "").count(",")


def name_of(label: str | None) -> str:
    """The mistake without what it was made with."""
    return (label or "").split(":")[0].split(",")[0]


class Proof:
    """Of one search: what each formula gives without the mistake, worked out once."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.kept: dict[str, tuple[Tensor, Fit] | None] = {}

    def supported(self, found: Found) -> bool:
        """Whether the mistake explains something that rounding does not: without it, numbers are off by many
        times what an error may be; for a setting, in groups of different spread."""
        if found.label is None:
            return True
        if constants(found.label) > 1 and found.convention.name != self.search.hints.convention:
            return False  # Two free numbers fit too much to tell a convention by.
        plain = self._plain(found)
        if plain is None:
            return not found.label.startswith((*FITTED, *SETTINGS))
        off, fit = plain
        # Far off in a few groups of a long batch, nothing was compared with the rest of it.
        whole = off.shape[0] == self.search.batch.rollouts
        view = self.search.view if whole else self.search.whole.seen
        allowed = view.precision.rtol * _sizes(view) + view.slack
        far = (off > TIMES * allowed) & ~fit.agrees & torch.isfinite(off)
        if not bool(far.any()):
            return False
        if not found.label.startswith((*FITTED, *SETTINGS)):
            return True
        rows = torch.nonzero(far).squeeze(1)
        return _several(self.search, rows if whole else self.search.rows[rows], found.label)

    def _plain(self, found: Found) -> tuple[Tensor, Fit] | None:
        """How far each rollout is off where the mistake is not made, `[B]`, and the fit then."""
        own = found.convention
        params = _without(found, self.search)
        key = f"{own.estimator} {params!r} {found.whitening!r}"
        if key not in self.kept:
            self.kept[key] = self._computed(own.estimator, params, found.whitening)
        return self.kept[key]

    def _computed(self, estimator: str, params: Any, whitening: Whitening) -> tuple[Tensor, Fit] | None:
        search = self.search
        setup = Setup(search.batch, estimator, params)
        raw = search.raw(setup)
        if raw is None or (search.varied and not raw.per_token):
            return None
        shape = Shape(search.batch, raw)
        affine = shape.whitened(whitening)
        if affine is None:
            return None
        fit = search.compare(shape, affine)
        better = in_single(search.view, setup, shape, affine, whitening) if not raw.per_token else None
        if better is not None and better.rollouts_matched > fit.rollouts_matched:
            fit = better
        return fit.off, fit


def _without(found: Found, search: Search) -> Any:
    """The parameters without the mistake: the convention's own, as configured if those are nearer, with the
    discounts that were found."""
    bases = (configured(found.convention, search.hints), found.convention.params)
    own = min(bases, key=lambda base: _differing(base, found.params))
    kept = [name for name in _FOUND if hasattr(own, name) and not (found.label or "").startswith("kl_")]
    return replace(own, **{name: getattr(found.params, name) for name in kept})


def _differing(one: Any, other: Any) -> int:
    return sum(getattr(one, each.name) != getattr(other, each.name) for each in fields(one))


def _sizes(view: View) -> Tensor:
    low, high = view.extremes
    return torch.maximum(low.abs(), high.abs()).nan_to_num(0.0)


def _several(search: Search, rows: Tensor, label: str) -> bool:
    """Whether the numbers that are off lie in several groups of different spread; one number added to all
    needs none."""
    if label.startswith("offset") and constants(label) == 1:
        return rows.shape[0] > 2
    batch = search.batch
    groups = torch.unique(batch.group[rows])
    if groups.shape[0] < 2:
        return False
    if search.varied:
        return True
    low, high = (
        torch.full((int(batch.group.max()) + 1,), start, dtype=torch.float64)
        for start in (torch.inf, -torch.inf)
    )
    low.scatter_reduce_(0, batch.group, batch.scores.double(), "amin")
    high.scatter_reduce_(0, batch.group, batch.scores.double(), "amax")
    spread = (high - low)[groups]
    # Without rewards of rollouts the spread is not known; then groups are all there is to tell by.
    told = spread[torch.isfinite(spread)]
    return not told.numel() or float(told.max() - told.min()) > _APART * float(told.max())


def proved(search: Search, found: Found, top: Sequence[Found]) -> bool:
    """Whether nothing is left but this mistake: all that fit as well have it, too, it is made with what is
    configured as far as that is known, and it is no setting or constant which somebody may have meant."""
    hints = search.hints
    if found.label is None or not found.fit.matched or hints.foreign:
        return False
    if constants(found.label) > 1:
        return False  # Whatever was whitened otherwise is a line of what it should be.
    if any(name_of(each.label) != name_of(found.label) for each in top):
        return False
    named = CONVENTIONS.get(hints.convention or "")
    if named is not None and named.estimator != found.convention.estimator:
        return False
    if found.label.startswith((*FITTED, *SETTINGS)):
        return request_of(hints) is not None and any(each.convention.name == hints.convention for each in top)
    return True
