"""Whether a formula with a mistake comes near, asked of a few whole groups of a long batch."""

from dataclasses import replace

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Setup
from estimators.reconcile_formulas import Formula
from estimators.reconcile_sample import Sample, members, take, view_of
from estimators.reconcile_search import Search
from estimators.reconcile_stack import apart, hopeful
from estimators.registry import ESTIMATORS
from estimators.shape import Shape

#: Rollouts whose groups are looked at.
_SEEDS = 12
#: And the size of a group that is too large to be one of so many.
_LARGEST = 64


def straight(formula: Formula) -> bool:
    """Whether every convention does one and the same to all raw advantages."""
    settings = [each.whitening for each in formula.conventions]
    return all(each.scope in ("none", "batch") and each.clip is None for each in settings)


def near(search: Search, formula: Formula, variant: Input) -> bool:
    """Whether on a few whole groups the numbers recorded for rollouts lie on a line of those computed, as
    they then do everywhere, whatever whitening over the batch comes after."""
    rules, params = search.rules(formula), formula.params
    if search.small or search.varied or rules is None or rules.per_token or not rules.apart:
        return True
    if not straight(formula) or search.batch.rollout_id is not None:
        return True
    setup: Setup | None = Setup(search.batch, formula.estimator, params)
    sample = _groups(search, variant) if variant.groups else _many(search)
    if sample is not None and setup is not None:
        setup = _on(search, setup, variant, sample)
    if sample is None or setup is None or not apart(search.batch, setup.params):
        return True
    raw = search.raw(setup)
    if raw is None:  # What it refuses in these groups, it refuses in the batch.
        return False
    return hopeful(raw.advantages, raw.per_token, True, sample.seen, sample.seen, 1)[0]


def _on(search: Search, setup: Setup, variant: Input, sample: Sample) -> Setup | None:
    """The setup with the mistake on these whole groups; None where they do not tell."""
    if variant.groups:
        return replace(setup, batch=sample.part)
    if not variant.rows:
        return variant.alter(replace(setup, batch=sample.part))
    if variant.shared:
        part = search.changed(setup, variant, sample)
        return None if part is None else replace(setup, batch=part)
    altered = variant.alter(setup)
    if altered is None or altered.batch is not search.batch:
        return None
    return replace(altered, batch=sample.part)


def _many(search: Search) -> Sample | None:
    """The groups of some rollouts spread over the batch, as they are."""
    ahead = search.ahead
    if not ahead.many:
        ahead.many.append(_sample(search, search.batch))
    return ahead.many[0]


def _groups(search: Search, variant: Input) -> Sample | None:
    """The groups of those rollouts as a mistake makes them that changes nothing but groups."""
    ahead = search.ahead
    if id(variant) not in ahead.grouped:
        altered = variant.alter(Setup(search.batch, "gae", ESTIMATORS["gae"].params()))
        sample = None if altered is None else _sample(search, altered.batch)
        ahead.grouped[id(variant)] = variant, sample
    return ahead.grouped[id(variant)][1]


def _sample(search: Search, batch: Batch) -> Sample | None:
    """None where one of the groups is too large to be looked at as a whole."""
    seed = torch.linspace(0, batch.rollouts - 1, _SEEDS).long()
    if int(torch.bincount(batch.group)[batch.group[seed]].max()) > _LARGEST:
        return None
    rows = members(seed, batch.group)
    return Sample(rows, take(batch, rows), view_of(search.view, rows))


def lies_near(search: Search, formula: Formula, shape: Shape) -> bool:
    """Whether the recorded means of rollouts lie on a line of the raw ones, where the formula gives one."""
    if search.varied or not straight(formula):
        return True
    raw = shape.raw
    return hopeful(raw.advantages, raw.per_token, True, search.view, search.view, 1)[0]
