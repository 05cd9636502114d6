"""Computing one formula, right or with a mistake, where a few rollouts leave a chance that it agrees."""

import time
from dataclasses import replace

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Setup, rows_changed
from estimators.reconcile_formulas import Formula
from estimators.reconcile_recorded import View
from estimators.reconcile_sample import REGROUPED, lines, members, mostly, plausible_means, take, view_of
from estimators.reconcile_search import Search
from estimators.reconciliation import TooLong
from estimators.shape import Shape


def shape(search: Search, setup: Setup, variant: Input | None) -> Shape | None:
    """The raw advantages on the whole batch, or None where they cannot be those recorded.

    Raises TooLong."""
    if search.until is not None and time.monotonic() > search.until:
        raise TooLong
    if not search.token_level(setup):
        if search.varied:
            return None
    elif not search.small and not survives(search, setup, variant):
        return None
    altered = setup if variant is None else variant.alter(setup)
    raw = None if altered is None else search.raw(altered)
    if altered is None or raw is None:
        return None
    batch = rows_changed(search.batch, group=altered.batch.group, rank=altered.batch.rank)
    if altered.batch.response_mask is not search.batch.response_mask:
        batch = altered.batch
    found = search.last.shape(batch, raw)
    per_token = raw.per_token and search.view.recorded.per_token
    if per_token and search.small and not mostly(lines(raw.advantages, search.view)):
        if variant is None and search.view.per_rollout is not None:
            search.varying.add(search.key(setup))
        return None
    return found


def plain(search: Search, formula: Formula) -> list[tuple[Setup, Shape]]:
    """The setups of the formula, nothing changed, that may have given what is recorded, each with its raw
    advantages: the same for every mistake that comes after them."""
    found = search.shapes.get(id(formula))
    if found is None:
        setups = search.settings(formula, None, grid=False)
        found = [(setup, made) for setup in setups if (made := shape(search, setup, None)) is not None]
        if search.small or not any(made.raw.per_token for _, made in found):
            search.shapes[id(formula)] = found
    return found


def survives(search: Search, setup: Setup, variant: Input | None) -> bool:
    """Whether the raw advantages of the sample are lines of the recorded ones."""
    found = _sampled(search, setup, variant)
    raw = None if found is None else search.raw(found[0])
    if found is None or raw is None or not raw.per_token:
        return False
    seen = found[1]
    if not seen.recorded.per_token:
        return plausible_means(raw.advantages, seen)
    if not mostly(lines(raw.advantages, seen)):
        if variant is None and seen.per_rollout is not None:
            search.varying.add(search.key(setup))
        return False
    return seen.per_rollout is None or plausible_means(raw.advantages, seen)


def _sampled(search: Search, setup: Setup, variant: Input | None) -> tuple[Setup, View] | None:
    """The setup on the sample with the mistake, and what is recorded there; None where it does not apply."""
    sample = search.sample(setup)
    if variant is None or not variant.rows:
        part = replace(setup, batch=sample.part)
        altered = part if variant is None else variant.alter(part)
        return None if altered is None else (altered, sample.seen)
    if variant.shared and not variant.groups:
        batch = search.changed(setup, variant, search.whole)
        return None if batch is None else (replace(setup, batch=batch), search.whole.seen)
    whole = variant.alter(setup)
    if whole is None:
        return None
    if search.part is None or search.part[0] is not whole.batch:
        search.part = whole.batch, *_part(search, whole.batch)
    return replace(whole, batch=search.part[1]), search.part[2]


def _part(search: Search, batch: Batch) -> tuple[Batch, View]:
    """Some whole groups of a batch with a mistake, and what is recorded of them."""
    if batch is search.batch:
        return search.whole.part, search.whole.seen
    if batch.group is search.batch.group:
        return take(batch, search.rows), search.whole.seen
    rows = members(search.seed, batch.group, REGROUPED)
    return take(batch, rows), view_of(search.view, rows)
