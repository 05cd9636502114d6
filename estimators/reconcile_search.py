"""The search: formulas × settings × mistakes × whitenings, the cheap questions first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.conventions import Convention
from estimators.estimator import Raw
from estimators.mistakes import MISTAKES
from estimators.mistakes.mistake import Input, Rescale, Setup, Whiten, rows_changed
from estimators.reconcile_formulas import Formula, whitenings
from estimators.reconcile_recorded import Fit, View
from estimators.reconcile_sample import (
    SMALL,
    lines,
    members,
    on_lines,
    places,
    plausible_means,
    seeds,
    take,
    view_of,
)
from estimators.reconcile_solve import settings
from estimators.reconciliation import Hints
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.shape import IDENTITY, Shape, composed
from estimators.whitening import Affine, Whitening


@dataclass(frozen=True, slots=True)
class Found:
    """One computation that was compared. `means` `[B]`: what it gives each rollout on average; `order`: place
    in the search, the simplest first."""

    convention: Convention
    params: Any
    kind: str
    whitening: Whitening
    label: str | None
    text: str
    fit: Fit
    means: Tensor
    order: int


class Search:
    """What is kept over the trials of one reconciliation."""

    def __init__(self, batch: Batch, view: View, hints: Hints) -> None:
        self.batch, self.view, self.hints = batch, view, hints
        self.small = batch.tokens <= SMALL
        self.per_token: dict[str, bool] = {}
        self.found: list[Found] = []
        #: Raw advantages of the batch as it is: all of a small one, else only those per rollout.
        self.kept: dict[str, Raw] = {}
        self.seed = seeds(batch) if not self.small else torch.arange(batch.rollouts)
        self.rows = members(self.seed, batch.group) if not self.small else self.seed
        self.part = take(batch, self.rows) if not self.small else batch
        self.seen = view_of(view, self.rows) if not self.small else view

    # Running one setup ---------------------------------------------------------------------------------

    def raw(self, setup: Setup) -> Raw | None:
        """The raw advantages, None where the estimator refuses."""
        run, key = setup.run or ESTIMATORS[setup.estimator].run, ""
        if setup.run is None and setup.batch is self.batch:
            key = f"{setup.estimator} {setup.params!r}"
            if key in self.kept:
                return self.kept[key]
        try:
            found = run(setup.batch, setup.params, torch.float64)
        except Refused:
            return None
        self.per_token[setup.estimator] = found.per_token
        if key and (self.small or not found.per_token):
            self.kept[key] = found
        return found

    def sees(self, formula: Formula, variant: Input) -> bool:
        """Whether the formula looks at what the mistake changes: at single tokens only those per token do."""
        return variant.rows or self.token_level(Setup(self.batch, formula.estimator, formula.params))

    def token_level(self, setup: Setup) -> bool:
        """Whether the estimator gives a number per token."""
        if setup.estimator not in self.per_token:
            batch = self.part if setup.batch.rollouts == self.batch.rollouts else setup.batch
            self.raw(replace(setup, batch=batch))
        return self.per_token.get(setup.estimator, False)

    def shape(self, setup: Setup, variant: Input | None) -> Shape | None:
        """The raw advantages on the whole batch, or None where they cannot be those recorded."""
        if not self.token_level(setup):
            if self.view.recorded.per_token and self.view.per_rollout is None:
                return None
        elif not self.small and not self._survives(setup, variant):
            return None
        altered = setup if variant is None else variant.alter(setup)
        raw = None if altered is None else self.raw(altered)
        if altered is None or raw is None:
            return None
        shape = Shape(rows_changed(self.batch, group=altered.batch.group, rank=altered.batch.rank), raw)
        if altered.batch.response_mask is not self.batch.response_mask:
            shape = Shape(altered.batch, raw)
        per_token = raw.per_token and self.view.recorded.per_token
        if per_token and self.small and not _mostly(lines(raw.advantages, self.view)):
            return None
        return shape

    def _survives(self, setup: Setup, variant: Input | None) -> bool:
        """Whether the raw advantages of the sample are lines of the recorded ones."""
        rows, seen, part = self.rows, self.seen, self.part
        if variant is None:
            altered: Setup | None = replace(setup, batch=part)
        elif variant.rows:
            whole = variant.alter(setup)
            if whole is None:
                return False
            rows = members(self.seed, whole.batch.group)
            altered = replace(whole, batch=take(whole.batch, rows))
            seen = view_of(self.view, rows)
        else:
            altered = variant.alter(replace(setup, batch=part))
        raw = None if altered is None else self.raw(altered)
        if raw is None or not raw.per_token or not _mostly(lines(raw.advantages, seen)):
            return False
        return seen.per_rollout is None or plausible_means(raw.advantages, seen)

    # The parameters to try -----------------------------------------------------------------------------

    def settings(self, formula: Formula, variant: Input | None, grid: bool) -> Iterator[Setup]:
        """Setups of the formula on the whole batch, each with parameters of its own."""
        setup = Setup(self.batch, formula.estimator, formula.params)
        if not self.token_level(setup):
            yield setup
            return
        part = replace(setup, batch=self.part)
        altered = part if variant is None or variant.rows else variant.alter(part)
        if altered is None or type(altered.params) is not type(setup.params):
            return
        for params in settings(altered, self.seen, grid):
            changed = {"gamma": getattr(params, "gamma", None), "lam": getattr(params, "lam", None)}
            known = {name: value for name, value in changed.items() if value is not None}
            if getattr(params, "kl_coef", 0) and not getattr(altered.params, "kl_coef", 0):
                known["kl_coef"] = params.kl_coef
            yield replace(setup, params=replace(setup.params, **known))

    # Comparing -----------------------------------------------------------------------------------------

    def compare(self, shape: Shape, affine: Affine) -> Fit:
        raw = shape.raw
        if not raw.per_token or self.small:
            return self.view.fit(raw.advantages, raw.per_token, affine)
        spread = Affine(*(_rows(part, self.rows) for part in (affine.centre, affine.factor, affine.back)))
        where = places(self.batch, self.rows)
        quick = self.seen.fit(raw.advantages[where], True, spread)
        if quick.rollouts_matched < 0.9 * quick.rollouts:
            return quick
        return self.view.fit(raw.advantages, True, affine)

    def keep(
        self, setup: Setup, shape: Shape, option: "Option", convention: Convention, known: Fit | None = None
    ) -> Fit:
        """Compares one option, unless its fit is known, and keeps it for the convention."""
        fit = known or self.compare(shape, option.affine)
        if known is None and not fit.matched and 0.8 * fit.rollouts <= fit.rollouts_matched:
            fit = self._single(setup, shape, option, fit)
        means = option.affine.apply(shape.moments[1])
        what = option.kind, option.whitening, option.label, option.text
        self.found.append(Found(convention, setup.params, *what, fit, means, len(self.found)))
        return fit

    def scopes(self, shape: Shape) -> set[str]:
        """The scopes over which the recorded means of the rollouts are a line of the raw ones: no others can
        have been whitened."""
        batch, found = self.batch, set()
        for scope, ids in (("batch", None), ("group", batch.group), ("data_source", batch.data_source)):
            if (scope == "batch" or ids is not None) and on_lines(shape.moments[1], self.view, ids):
                found.add(scope)
        return found

    def _single(self, setup: Setup, shape: Shape, option: "Option", fit: Fit) -> Fit:
        """Rounding in a framework's single precision is no disagreement: the nearer of both counts."""
        if shape.raw.per_token:
            return fit
        run = setup.run or ESTIMATORS[setup.estimator].run
        try:
            raw = run(setup.batch, setup.params, torch.float32)
        except Refused:
            return fit
        exact = option.affine.apply(shape.raw.advantages)
        coarse = option.affine.apply(raw.advantages.double())
        target = self.view.per_rollout if self.view.per_rollout is not None else self.view.values
        nearer = (coarse - target).abs() < (exact - target).abs()
        better = self.view.fit(torch.where(nearer, coarse, exact), False, IDENTITY)
        return better if better.rollouts_matched > fit.rollouts_matched else fit


@dataclass(frozen=True, slots=True)
class Option:
    """What is done to raw advantages, and what that is called."""

    affine: Affine
    kind: str
    whitening: Whitening
    label: str | None = None
    text: str = ""


def _rows(part: Tensor, rows: Tensor) -> Tensor:
    return part if part.shape[0] == 1 else part[rows]


def _mostly(says: Tensor) -> bool:
    """Whether nine in ten of those that say anything say yes."""
    known = says[~torch.isnan(says)]
    return not known.numel() or float(known.mean()) >= 0.9


def right(search: Search, formulas: list[Formula], others: bool = False, grid: bool = False) -> bool:
    """Every formula without a mistake, as each convention whitens and before that; or, if `others`, with the
    other kernels of the catalogue. Whether any matched."""
    matched = False
    for formula in formulas:
        for setup in search.settings(formula, None, grid):
            shape = search.shape(setup, None)
            if shape is not None and whiten_all(search, formula, setup, shape, others=others):
                matched = True
                break
    return matched


def whiten_all(
    search: Search,
    formula: Formula,
    setup: Setup,
    shape: Shape,
    label: str | None = None,
    text: str = "",
    others: bool = False,
) -> bool:
    """The options without a mistake in the whitening. Whether any matched."""
    any_matched = False
    done: dict[Whitening, Fit] = {}
    scopes = search.scopes(shape) if others else set()
    for convention in formula.conventions:
        for kind, setting in whitenings(convention):
            if (kind == "other") != others or (others and setting.scope not in scopes):
                continue
            affine = shape.whitened(setting)
            if affine is None:
                continue
            option = Option(affine, kind, setting, label, text)
            done[setting] = search.keep(setup, shape, option, convention, done.get(setting))
            if done[setting].matched:
                any_matched = True
                break
    return any_matched


def wrong(search: Search, formulas: list[Formula], beside: bool = False) -> None:
    """Every formula with one mistake; if `beside`, only with those worth naming beside a match."""
    found = list(search.found)
    for mistake in MISTAKES.values():
        if beside and not mistake.beside_match:
            continue
        for variant in mistake.variants(search.batch, search.hints):
            if beside and not _telling(variant, mistake.name, found):
                continue
            for formula in formulas:
                if not beside or not isinstance(variant, Input) or search.sees(formula, variant):
                    _one(search, formula, variant)


def _telling(variant: Input | Whiten | Rescale, name: str, found: list[Found]) -> bool:
    """Whether a mistake is worth looking at where something without one agrees: in its plainest way, and in
    the whitening only where another kernel than the convention's was needed."""
    if isinstance(variant, Rescale) or variant.label != name:
        return False
    return isinstance(variant, Input) or all(each.kind == "other" for each in found if each.fit.matched)


def _one(search: Search, formula: Formula, variant: Input | Whiten | Rescale) -> None:
    given = variant if isinstance(variant, Input) else None
    for setup in search.settings(formula, given, grid=False):
        shape = search.shape(setup, given)
        if shape is None:
            continue
        if given is not None:
            altered = given.alter(setup)
            assert altered is not None
            if whiten_all(search, formula, altered, shape, given.label, given.text):
                return
        elif isinstance(variant, Whiten):
            for convention in formula.conventions:
                affine = variant.affine(shape, convention.whitening)
                if affine is not None:
                    option = Option(affine, "own", convention.whitening, variant.label, variant.text)
                    search.keep(setup, shape, option, convention)
        elif isinstance(variant, Rescale):
            _rescaled(search, formula, setup, shape, variant)


def _rescaled(search: Search, formula: Formula, setup: Setup, shape: Shape, variant: Rescale) -> None:
    for convention in formula.conventions:
        for kind, setting in (("own", convention.whitening), ("none", Whitening())):
            if kind == "none" and convention.whitening.scope == "none":
                continue
            affine = shape.whitened(setting)
            pairs = None if affine is None else _pairs(search, shape, affine)
            found = None if pairs is None else variant.fit(*pairs)
            if affine is None or found is None:
                continue
            label, text, factor, offset = found
            numbers = (0.0, factor, offset)
            after = Affine(*(torch.tensor([number], dtype=torch.float64) for number in numbers))
            option = Option(composed(affine, after), kind, setting, label, text)
            if search.keep(setup, shape, option, convention).matched:
                break


def _pairs(search: Search, shape: Shape, affine: Affine) -> tuple[Tensor, Tensor] | None:
    """Computed and recorded numbers of the sample that belong together."""
    view = search.view
    if not shape.raw.per_token:
        recorded = view.per_rollout
        if recorded is None:
            return None
        computed = affine.apply(shape.raw.advantages)
    else:
        if not view.recorded.per_token:
            return None
        where = places(search.batch, search.rows)
        owner = torch.repeat_interleave(search.rows, search.batch.lengths[search.rows])
        kept = view.taken[where]
        where, owner = where[kept], owner[kept]
        centre, factor, back = (_rows(part, owner) for part in (affine.centre, affine.factor, affine.back))
        computed = (shape.raw.advantages[where].double() - centre) * factor + back
        recorded = view.values[where].double()
    finite = torch.isfinite(computed) & torch.isfinite(recorded)
    return (computed[finite], recorded[finite]) if bool(finite.any()) else None
