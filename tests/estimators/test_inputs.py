"""Formulas that are told to see the same give the same advantages, and a change that shows is told."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, event, given
from hypothesis import strategies as st

import estimators.reconcile_search
from estimators import CONVENTIONS, ESTIMATORS, Batch, Refused, Request, estimate
from estimators.inputs import Inputs
from estimators.mistakes.mistake import Setup
from estimators.mistakes.shifting import EDGES, shifted
from estimators.reconcile import Hints, Reconciliation, Recorded, reconcile
from estimators.reconcile_recorded import View
from estimators.reconcile_search import Search
from tests.estimators.build import batch_of
from tests.estimators.reconcile_batches import generated
from tests.estimators.strategies import Rows, law, rows

#: Every way of the catalogue to compute what tells what it sees, with γ and λ that are far from 1.
TELLING = [each for each in CONVENTIONS.values() if ESTIMATORS[each.estimator].sees is not None]


def _seen(batch: Batch, estimator: str, params: Any) -> Inputs | None:
    sees = ESTIMATORS[estimator].sees
    assert sees is not None
    try:
        return sees(batch, params, torch.float64)
    except Refused:
        assume(False)
        raise


def _moved(batch: Batch, change: str) -> Batch:
    assert batch.values is not None
    if change == "a value":
        values = batch.values.clone()
        values[:1] += 1
        return replace(batch, values=values)
    return replace(batch, bootstrap_value=torch.ones(batch.rollouts)) if change == "bootstrap" else batch


@law
@given(
    rows(),
    st.sampled_from(TELLING),
    st.sampled_from(TELLING),
    st.sampled_from(["nothing", "a value", "bootstrap"]),
)
def test_what_is_seen_alike_is_computed_alike(case: Rows, one: Any, other: Any, change: str) -> None:
    batch = case.batch()
    moved = _moved(batch, change)
    first = _seen(batch, one.estimator, one.params)
    second = _seen(moved, other.estimator, other.params)
    assume(first is not None and second is not None)
    assert first is not None and second is not None
    alike = first.same(second)
    event(f"alike: {alike}")
    if alike:
        a = ESTIMATORS[one.estimator].run(batch, one.params, torch.float64).advantages
        b = ESTIMATORS[other.estimator].run(moved, other.params, torch.float64).advantages
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def _few() -> Batch:
    mask = [[True, True, False, True], [True, False, True, False]]
    numbers = [[0.25, -1.0, 3.0, 0.5], [1.5, 0.75, -0.5, 2.0]]
    return batch_of(mask, ["a", "a"], [1.0, 0.0], token_level_rewards=numbers, values=numbers)


def test_names_of_one_formula_see_alike() -> None:
    batch = _few()
    verl, nemo, areal, openrlhf = (
        _seen(batch, "gae", CONVENTIONS[f"gae/{name}"].params)
        for name in ("verl", "nemo", "areal", "openrlhf")
    )
    assert verl is not None and nemo is not None and areal is not None and openrlhf is not None
    # NeMo takes the reward off masked tokens, which verl skips.
    assert verl.same(nemo) and verl.same(areal)
    assert not verl.same(openrlhf)


@pytest.mark.parametrize("field", ["token_level_rewards", "values", "response_mask", "gamma", "lam"])
def test_a_change_that_shows_is_told(field: str) -> None:
    batch, params = _few(), CONVENTIONS["gae/verl"].params
    before = _seen(batch, "gae", params)
    if field in ("gamma", "lam"):
        params = replace(params, **{field: 0.5})
    elif field == "response_mask":
        batch = replace(batch, response_mask=~batch.response_mask)
    else:
        batch = replace(batch, **{field: getattr(batch, field) + 1})
    after = _seen(batch, "gae", params)
    assert before is not None and after is not None
    assert not before.same(after)


def _agreeing(found: Reconciliation) -> list[tuple[str, str | None, int]]:
    return [(c.convention, c.mistake, c.rollouts_matched) for c in found.candidates if c.matched]


@pytest.mark.parametrize("late", [False, True])
def test_a_long_batch_is_told_as_a_short_one(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = generated(5, groups=8, size=4, width=48)
    assert batch.values is not None
    made = replace(batch, values=shifted(batch.values, batch, 1)) if late else batch
    request = Request.from_dict({"convention": "gae/verl", "params": {"gamma": 0.97, "lam": 0.9}})
    recorded = Recorded(estimate(made, request).advantages, True)
    whole = reconcile(batch, recorded)
    monkeypatch.setattr(estimators.reconcile_search, "SMALL", 0)
    long = reconcile(batch, recorded)
    assert _agreeing(whole) and _agreeing(whole) == _agreeing(long)
    assert whole.verdict == long.verdict


def test_formulas_that_see_alike_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators.reconcile_search, "SMALL", 0)
    batch = generated(5, groups=16, size=4, width=24)
    search = Search(batch, View(batch, Recorded(torch.ones(batch.rollouts), False)), Hints())
    verl, areal, openrlhf = (
        Setup(batch, "gae", CONVENTIONS[f"gae/{name}"].params) for name in ("verl", "areal", "openrlhf")
    )
    first = search.raw(verl)
    # A few rollouts in between are no reason to forget.
    assert search.whole.part.rollouts < batch.rollouts
    search.raw(replace(verl, batch=search.whole.part))
    assert first is not None and search.raw(areal) is first
    assert search.raw(openrlhf) is not first


@law
@given(rows(), st.integers(-3, 3), st.sampled_from(EDGES))
def test_moving_a_field_inside_rollouts(case: Rows, steps: int, edge: str) -> None:
    batch = case.batch()
    assert batch.token_level_rewards is not None
    wanted: list[float] = []
    for row in torch.split(batch.token_level_rewards, batch.lengths.tolist()):
        for at in range(row.shape[0]):
            source = at - steps
            if not 0 <= source < row.shape[0]:
                source = {"wrapped": source % row.shape[0], "kept": at, "zero": -1}[edge]
            wanted.append(0.0 if source < 0 else float(row[source]))
    found = shifted(batch.token_level_rewards, batch, steps, edge)
    same = torch.tensor(wanted, dtype=found.dtype)
    torch.testing.assert_close(found, same, rtol=0, atol=0, equal_nan=True)
