"""Computing one formula, right or with a mistake, where a few rollouts leave a chance that it agrees."""

import time
from dataclasses import replace

from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Setup, rows_changed
from estimators.reconcile_formulas import Formula
from estimators.reconcile_recorded import View
from estimators.reconcile_sample import lines, members, mostly, plausible_means, take, view_of
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
    rows = search.rows if whole.batch.group is search.batch.group else members(search.seed, whole.batch.group)
    return replace(whole, batch=_part(search, whole.batch, rows)), _seen(search, rows)


def _part(search: Search, batch: Batch, rows: Tensor) -> Batch:
    """Those rollouts of the batch; the same object as long as both are."""
    if batch is search.batch and rows is search.rows:
        return search.whole.part
    return take(batch, rows)


def _seen(search: Search, rows: Tensor) -> View:
    """What is recorded of the rollouts; the last such view is kept."""
    if rows is search.rows:
        return search.whole.seen
    key = rows.numpy().tobytes()
    if search.seen is None or search.seen[0] != key:
        search.seen = key, view_of(search.view, rows)
    return search.seen[1]
