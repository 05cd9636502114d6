"""The stages of a search: without a mistake, then with each."""

from dataclasses import replace

import torch
from torch import Tensor

from estimators.mistakes import MISTAKES
from estimators.mistakes.mistake import Input, Rescale, Setup, Solve, Variant, Whiten
from estimators.mistakes.rescaling import distinct
from estimators.reconcile_formulas import Formula, whitenings
from estimators.reconcile_found import Found, Option
from estimators.reconcile_likely import likely, look_ahead, steps
from estimators.reconcile_near import lies_near
from estimators.reconcile_recorded import Fit
from estimators.reconcile_sample import rows_of, tokens_of
from estimators.reconcile_search import Search
from estimators.reconcile_trial import plain, shape, survives
from estimators.shape import IDENTITY, Shape, composed
from estimators.whitening import Affine, Whitening


def right(search: Search, formulas: list[Formula], others: bool = False, grid: bool = False) -> bool:
    """Every formula without a mistake, as each convention whitens and before that; or, if `others`, with the
    other kernels of the catalogue. Whether any matched."""
    matched = False
    for formula in formulas:
        if not search.of_kind(formula) or not steps(search, formula, None):
            continue
        for setup in search.settings(formula, None, grid):
            if not others and _unlike(search, formula, setup):
                continue
            made = shape(search, setup, None)
            if made is not None and whiten_all(search, formula, setup, made, others=others):
                matched = True
                break
    return matched


def _unlike(search: Search, formula: Formula, setup: Setup) -> bool:
    """Whether a formula per token that nobody whitens is far off in a few rollouts, or on whole groups: it is
    then kept as such, as the whole batch says no more."""
    unwhitened = all(each.whitening.scope == "none" for each in formula.conventions)
    if search.small or not search.varied or not unwhitened or not search.token_level(setup):
        return False
    if not survives(search, setup, None):
        return True
    sample = search.siblings
    raw = search.raw(replace(setup, batch=sample.part))
    if raw is None:
        return False
    fit = sample.seen.fit(raw.advantages, True, IDENTITY)
    if fit.rollouts_matched >= 0.9 * fit.rollouts:
        return False
    means = torch.full((search.batch.rollouts,), torch.nan, dtype=torch.float64)
    for convention in formula.conventions:
        search.add(setup, Option(IDENTITY, "own", convention.whitening), convention, fit, means)
    return True


def whiten_all(
    search: Search,
    formula: Formula,
    setup: Setup,
    made: Shape,
    label: str | None = None,
    text: str = "",
    others: bool = False,
) -> bool:
    """The options without a mistake in the whitening. Whether any matched."""
    any_matched = False
    done: dict[Whitening, Fit] = {}
    scopes = search.scopes(made) if others else set()
    for convention in formula.conventions:
        for kind, setting in (*whitenings(convention), *search.options.get(convention.name, ())):
            if (kind == "other") != others or (others and setting.scope not in scopes):
                continue
            affine = made.whitened(setting)
            if affine is None:
                continue
            option = Option(affine, kind, setting, label, text)
            done[setting] = search.keep(setup, made, option, convention, done.get(setting))
            if done[setting].matched:
                any_matched = True
                break
    return any_matched


def wrong(search: Search, formulas: list[Formula], beside: bool = False) -> None:
    """Every formula with one mistake; if `beside`, with those worth naming beside a match. Once one agrees as
    nearly as can be, the others are only asked whether they do the same."""
    found = list(search.found)
    tried = [each for each in MISTAKES.values() if each.beside_match or not beside]
    variants = {each.name: list(each.variants(search.batch, search.hints)) for each in tried}
    if not beside:
        look_ahead(search, [each for several in variants.values() for each in several])
    settled = False
    for mistake in tried:
        for variant in variants[mistake.name]:
            search.prospects.forget()
            if beside and not _telling(variant, mistake.name, found):
                continue
            if settled and not _rival(search, variant):
                continue
            for formula in formulas:
                if likely(search, formula, variant):
                    _one(search, formula, variant)
        if not beside and not settled and search.exact(len(found)):
            settled = True
            agreeing = {each.convention.estimator for each in search.found[len(found) :] if each.fit.matched}
            formulas = [each for each in formulas if each.estimator in agreeing]


def _rival(search: Search, variant: Variant) -> bool:
    """Whether a mistake may give the same numbers as one that agrees already. No constant is fitted then; in
    a long batch only the same grouping does so by chance."""
    if isinstance(variant, Rescale | Solve):
        return False
    return search.small or (isinstance(variant, Input) and variant.groups)


def _telling(variant: Variant, name: str, found: list[Found]) -> bool:
    """Whether a mistake is worth looking at where something without one agrees: in its plainest way, and in
    the whitening only where another kernel than the convention's was needed."""
    if isinstance(variant, Rescale | Solve) or variant.label != name:
        return False
    if isinstance(variant, Input):
        return True
    return all(each.kind == "other" for each in found if each.fit.matched)


def _one(search: Search, formula: Formula, variant: Variant) -> None:
    if isinstance(variant, Solve):
        solved = _solved(search, formula, variant)
        if solved is not None and likely(search, formula, solved):
            _altered(search, formula, solved)
        return
    if isinstance(variant, Input):
        _altered(search, formula, variant)
        return
    for setup, made in plain(search, formula):
        if isinstance(variant, Whiten):
            for convention in formula.conventions:
                affine = variant.affine(made, convention.whitening)
                if affine is not None:
                    option = Option(affine, "own", convention.whitening, variant.label, variant.text)
                    search.keep(setup, made, option, convention)
        else:
            _rescaled(search, formula, setup, made, variant)


def _solved(search: Search, formula: Formula, variant: Solve) -> Input | None:
    """The mistake that a few whole groups agree on."""
    sample, params = search.siblings, formula.params
    recorded = sample.seen.per_rollout
    if recorded is None:
        return None
    ends = (replace(params, **{variant.setting: number}) for number in (0.0, 1.0))
    zero, one = (search.raw(Setup(sample.part, formula.estimator, each)) for each in ends)
    if zero is None or one is None or zero.per_token or one.per_token:
        return None
    return variant.solve(zero.advantages, one.advantages, recorded)


def _altered(search: Search, formula: Formula, variant: Input) -> None:
    for setup in search.settings(formula, variant, grid=False):
        made = shape(search, setup, variant)
        altered = None if made is None else variant.alter(setup)
        if made is None or altered is None or not lies_near(search, formula, made):
            continue
        if whiten_all(search, formula, altered, made, variant.label, variant.text):
            return


def _rescaled(search: Search, formula: Formula, setup: Setup, made: Shape, variant: Rescale) -> None:
    for convention in formula.conventions:
        for kind, setting in (("own", convention.whitening), ("none", Whitening())):
            if kind == "none" and convention.whitening.scope == "none":
                continue
            affine = made.whitened(setting)
            pairs = None if affine is None else _pairs(search, made, affine)
            found = None if pairs is None else variant.fit(*pairs)
            if affine is None or found is None:
                continue
            label, text, factor, offset = found
            numbers = (0.0, factor, offset)
            after = Affine(*(torch.tensor([number], dtype=torch.float64) for number in numbers))
            option = Option(composed(affine, after), kind, setting, label, text)
            if search.keep(setup, made, option, convention).matched:
                break


def _pairs(search: Search, made: Shape, affine: Affine) -> tuple[Tensor, Tensor] | None:
    """Computed and recorded numbers of the sample that belong together."""
    view = search.view
    if not made.raw.per_token:
        recorded = view.per_rollout
        if recorded is None:
            return None
        computed = affine.apply(made.raw.advantages)
    else:
        if not view.recorded.per_token:
            return None
        taken, raw, values = (
            tokens_of(each, search.batch, search.rows)
            for each in (view.taken, made.raw.advantages, view.values)
        )
        owner = torch.repeat_interleave(search.rows, search.batch.lengths[search.rows])[taken]
        centre, factor, back = (rows_of(part, owner) for part in (affine.centre, affine.factor, affine.back))
        computed = (raw[taken].double() - centre) * factor + back
        recorded = values[taken].double()
    finite = torch.isfinite(computed) & torch.isfinite(recorded)
    # A constant that is fitted to a constant explains nothing.
    return (computed[finite], recorded[finite]) if distinct(recorded[finite]) > 1 else None
