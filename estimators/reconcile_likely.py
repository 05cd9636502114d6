"""Which formulas and mistakes are worth computing: the cheap questions about each."""

from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Setup, Solve, Variant, Whiten
from estimators.reconcile_formulas import Formula
from estimators.reconcile_lines import in_scopes, near_lines, scope_targets, targets
from estimators.reconcile_near import near, straight
from estimators.reconcile_rules import Rules
from estimators.reconcile_sample import Sample
from estimators.reconcile_search import Search
from estimators.reconcile_stack import (
    NEVER,
    Tally,
    apart,
    chunks,
    hopeful,
    repeated_view,
    stacked,
)
from estimators.reconcile_trial import plain
from estimators.refused import Refused
from estimators.registry import ESTIMATORS


def likely(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether the formula with the mistake may have given the recorded numbers."""
    return (
        search.sees(formula, variant)
        and steps(search, formula, variant)
        and _lines(search, formula, variant)
        and _hoped(search, formula, variant)
    )


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
            changed = search.changed(part, variant, sample)
            part = None if changed is None else replace(part, batch=changed)
        else:
            part = variant.alter(part)
    return part is not None and search.prospects.steps(part, sample.seen, rules, plain)


def _lines(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether, as far as the formula gives lines of the scores in each group, the recorded numbers are."""
    rules = search.rules(formula)
    if rules is None or not rules.lined:
        return True
    ids = variant.ids if isinstance(variant, Whiten) else None
    if not isinstance(variant, Input) or not _moves_lines(variant):
        key = formula.key, id(ids)
        if key not in search.ahead.tallies:
            search.ahead.tallies[key] = ids, _tally(search, formula, rules, None, ids)
        return search.prospects.open(search.ahead.tallies[key][1])
    return search.prospects.open(_tally(search, formula, rules, variant, None))


def _moves_lines(variant: Input) -> bool:
    """Whether the mistake changes scores or groups, or may."""
    if variant.settings:
        return "group_size" in variant.settings
    return (variant.rows or variant.scores) and variant.mask_of is None


def _tally(
    search: Search, formula: Formula, rules: Rules, variant: Input | None, ids: Tensor | None
) -> Tally:
    setup: Setup | None = Setup(search.batch, formula.estimator, formula.params)
    if variant is not None and setup is not None:
        setup = variant.alter(setup)
    if setup is None:
        return NEVER
    same = variant is None or variant.groups or bool(variant.settings)
    if not search.small:
        setup = replace(setup, batch=search.summed(setup))
    return search.prospects.tally(setup, rules, variant is None, same, ids)


def _hoped(search: Search, formula: Formula, variant: Variant) -> bool:
    """Whether the formula with the mistake comes near, in a run over all such mistakes at once."""
    if isinstance(variant, Solve):
        return True  # A line of its own in each group: the numbers themselves are looked at.
    if not isinstance(variant, Input):
        return _on_line(search, formula, variant.ids if isinstance(variant, Whiten) else None)
    if not near(search, formula, variant):
        return False
    rules = search.rules(formula)
    if rules is None or not rules.apart or id(variant) not in search.ahead.long:
        return True
    if not search.small and not (rules.per_token and straight(formula)):
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
        means = [made.moments[1] for _, made in plain(search, formula)]
        search.ahead.lined[key] = ids, any(_may_be(search, one, ids) for one in means)
    return search.ahead.lined[key][1]


def _may_be(search: Search, means: Tensor, ids: Tensor | None) -> bool:
    """Whether the recorded numbers may be what whitening inside the scopes makes of these."""
    if ids is None:
        return bool(near_lines(means[None], targets(search.view))[0])
    if id(ids) not in search.ahead.scopes:
        search.ahead.scopes[id(ids)] = ids, scope_targets(search.view, ids)
    return in_scopes(means, search.view, ids, search.ahead.scopes[id(ids)][1])


def look_ahead(search: Search, variants: list[Variant]) -> None:
    """Makes one long batch of those mistakes that do the same to the batch for every formula; of a few
    rollouts where all would be too many."""
    if not search.small and search.varied:
        return
    shared = [each for each in variants if isinstance(each, Input) and each.shared]
    setup, sample = Setup(search.few.part, "gae", ESTIMATORS["gae"].params()), search.few
    changed = [(each, made) for each in shared if (made := _alone(search, setup, each, sample)) is not None]
    if not changed:
        return
    for span in chunks([batch for _, batch in changed]):
        some = changed[span]
        batch = stacked([each for _, each in some])
        ids = [id(each) for each, _ in some]
        search.ahead.longs.append((batch, repeated_view(sample.seen, batch, len(some)), ids))
        search.ahead.long.update(ids)


def _alone(search: Search, setup: Setup, variant: Input, sample: Sample) -> Batch | None:
    """The sample after the mistake; None where it does not apply or cannot be told from a few rollouts."""
    if search.small or not variant.rows:
        altered = variant.alter(setup)
        return None if altered is None else altered.batch
    return None if variant.groups else search.changed(setup, variant, sample)


def _hopes(search: Search, formula: Formula) -> set[int]:
    one_line = straight(formula) and not search.varied
    kept: set[int] = set()
    for batch, long, ids in search.ahead.longs:
        try:
            raw = ESTIMATORS[formula.estimator].run(batch, formula.params, torch.float64)
        except Refused:
            kept.update(ids)
            continue
        near = hopeful(raw.advantages, raw.per_token, one_line, long, search.few.seen, len(ids))
        kept.update(one for one, good in zip(ids, near, strict=True) if good)
    return kept
