"""Which formulas and mistakes are worth computing: the cheap questions about each."""

from dataclasses import replace

import torch
from torch import Tensor

from estimators.mistakes.mistake import Input, Setup, Variant, Whiten
from estimators.reconcile_formulas import Formula
from estimators.reconcile_near import changed_rows, near, straight
from estimators.reconcile_search import Search
from estimators.reconcile_stack import (
    apart,
    chunks,
    hopeful,
    largest,
    near_lines,
    repeated_view,
    stacked,
)
from estimators.refused import Refused
from estimators.registry import ESTIMATORS


def likely(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether the formula with the mistake may have given the recorded numbers."""
    return (
        search.sees(formula, variant)
        and _possible(search, formula, variant)
        and _hoped(search, formula, variant)
    )


def _possible(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether the formula with the mistake can have given the recorded numbers, by the rules it obeys."""
    return steps(search, formula, variant) and _lines(search, formula, variant)


def steps(search: Search, formula: Formula, variant: Variant | None) -> bool:
    """Whether, as far as the formula is a recursion over tokens, the recorded numbers are."""
    rules = search.rules(formula)
    if rules is None or not rules.stepped or not search.varied:
        return True
    sample = search.sample(formula)
    part: Setup | None = Setup(sample.part, formula.estimator, formula.params)
    plain = not isinstance(variant, Input)
    if isinstance(variant, Input) and part is not None:
        if variant.groups and not search.small:
            return True  # Siblings in the batch are none in the sample.
        if variant.rows and variant.shared and not search.small:
            changed = changed_rows(search, part, variant, sample.rows)
            part = None if changed is None else replace(part, batch=changed)
        else:
            part = variant.alter(part)
    return part is not None and search.prospects.steps(part, sample.seen, rules, plain)


def _lines(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether, as far as the formula gives lines of the scores in each group, the recorded numbers are."""
    rules = search.rules(formula)
    if rules is None or not rules.lined:
        return True
    setup: Setup | None = Setup(search.batch, formula.estimator, formula.params)
    plain = not isinstance(variant, Input) or not (variant.rows or variant.scores)
    if isinstance(variant, Input) and not plain and setup is not None:
        setup = variant.alter(setup)
    if setup is None:
        return False
    if not search.small:
        setup = replace(setup, batch=search.summed(setup))
    ids = variant.ids if isinstance(variant, Whiten) else None
    return search.prospects.lines(setup, rules, plain, ids)


def _hoped(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether the formula with the mistake comes near, in a run over all such mistakes at once."""
    if not isinstance(variant, Input):
        return _on_line(search, formula, variant.ids if isinstance(variant, Whiten) else None)
    if not near(search, formula, variant):
        return False
    rules = search.rules(formula)
    if rules is None or not rules.apart or id(variant) not in search.ahead.long:
        return True
    if (search.varied and hasattr(formula.params, "gamma")) or not apart(search.batch, formula.params):
        return True  # γ and λ may be others than the formula's own: they are read off the numbers.
    if formula.key not in search.ahead.hopes:
        search.ahead.hopes[formula.key] = _hopes(search, formula)
    return id(variant) in search.ahead.hopes[formula.key]


def _on_line(search: Search, formula: Formula, ids: Tensor | None) -> bool:
    """Whether the recorded means of rollouts lie on a line of the raw ones, inside the scopes `ids`."""
    if search.varied or not straight(formula):
        return True
    key = formula.key, id(ids)
    if key not in search.ahead.lined:
        means = [shape.moments[1] for _, shape in search.plain(formula)]
        kept = None if ids is None else largest(ids)
        search.ahead.lined[key] = ids, any(bool(near_lines(one[None], search.view, kept)[0]) for one in means)
    return search.ahead.lined[key][1]


def look_ahead(search: Search, variants: list[Variant]) -> None:
    """Makes one long batch of those mistakes that do the same to the batch for every formula."""
    if not search.small:
        return
    shared = [each for each in variants if isinstance(each, Input) and each.shared]
    setup = Setup(search.batch, "gae", ESTIMATORS["gae"].params())
    changed = [(each, made.batch) for each in shared if (made := each.alter(setup)) is not None]
    if not changed:
        return
    for span in chunks([batch for _, batch in changed]):
        some = changed[span]
        batch = stacked([each for _, each in some])
        ids = [id(each) for each, _ in some]
        search.ahead.longs.append((batch, repeated_view(search.view, batch, len(some)), ids))
        search.ahead.long.update(ids)


def _hopes(search: Search, formula: Formula) -> set[int]:
    one_line = straight(formula) and not search.varied
    kept: set[int] = set()
    for batch, long, ids in search.ahead.longs:
        try:
            raw = ESTIMATORS[formula.estimator].run(batch, formula.params, torch.float64)
        except Refused:
            kept.update(ids)
            continue
        near = hopeful(raw.advantages, raw.per_token, one_line, long, search.view, len(ids))
        kept.update(one for one, good in zip(ids, near, strict=True) if good)
    return kept
