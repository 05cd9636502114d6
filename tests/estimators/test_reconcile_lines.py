"""The cheap questions of a reconciliation let through what is right and hold back what cannot be."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from estimators import CONVENTIONS
from estimators.mistakes import MISTAKES
from estimators.mistakes.mistake import Input, Setup
from estimators.reconcile_lines import in_scopes, near_lines, scope_targets, targets
from estimators.reconcile_recorded import View
from estimators.reconcile_sample import members, seeds, take
from estimators.reconciliation import Hints, Recorded
from tests.estimators.reconcile_batches import generated


def _drawn(count: int, seed: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _view(numbers: Tensor) -> View:
    batch = generated(groups=(numbers.shape[0] - 5) // 4)
    assert batch.rollouts == numbers.shape[0]
    return View(batch, Recorded(numbers, False))


@pytest.mark.parametrize("count", [29, 4105])
def test_means_on_a_line_are_near_it_and_others_are_not(count: int) -> None:
    x, other = _drawn(count, 1), _drawn(count, 2)
    some_off = torch.where(torch.arange(count) % 3 == 0, x + other, x)
    wanted = targets(_view(2 * x - 0.5))
    assert near_lines(torch.stack([x, -x, some_off, other]), wanted).tolist() == [True, True, True, False]


def test_too_few_rollouts_say_nothing_of_a_line() -> None:
    wanted = targets(_view(_drawn(9, 1)), torch.arange(9) < 5)
    assert wanted is None and near_lines(_drawn(9, 2)[None], wanted).tolist() == [True]


def test_whitening_inside_small_scopes_keeps_their_order() -> None:
    x, pair = _drawn(29, 1), torch.arange(29) // 2
    shift, factor = _drawn(15, 3)[pair], _drawn(15, 4).exp()[pair]
    view = _view(shift + factor * x)
    largest = scope_targets(view, pair)
    assert in_scopes(x, view, pair, largest)
    assert not in_scopes(-x, view, pair, largest)
    assert not in_scopes(_drawn(29, 5), view, pair, largest)


def test_scopes_of_one_leave_nothing_or_the_number_itself() -> None:
    x, alone = _drawn(29, 1), torch.arange(29)
    for numbers, may in ((x, True), (torch.zeros(29).double(), True), (_drawn(29, 2), False)):
        view = _view(numbers)
        assert in_scopes(x, view, alone, scope_targets(view, alone)) is may


def test_a_mistake_on_some_rollouts_alone_is_the_one_on_all() -> None:
    batch, rows = generated(), torch.tensor([0, 1, 2, 5, 17, 28])
    setup, compared = Setup(batch, "gae", CONVENTIONS["gae/verl"].params), 0
    for each in MISTAKES["mask_shifted"].variants(batch, Hints()):
        if isinstance(each, Input) and each.mask_of is not None:
            whole = each.alter(setup)
            assert whole is not None
            assert torch.equal(each.mask_of(batch, rows), take(whole.batch, rows).response_mask)
            compared += 1
    assert compared == 2


def test_what_is_the_same_for_every_formula_is_made_once() -> None:
    batch = generated()
    one, other = (Setup(batch, "gae", CONVENTIONS[name].params) for name in ("gae/verl", "gae/openrlhf"))
    for mistake in MISTAKES.values():
        for each in mistake.variants(batch, Hints()):
            if not isinstance(each, Input) or not each.shared:
                continue
            first, second = each.alter(one), each.alter(other)
            if first is not None and second is not None:
                assert first.batch is second.batch, each.label
                assert first.params is one.params and second.params is other.params, each.label


def test_the_sample_has_the_rollout_that_reaches_furthest() -> None:
    batch = generated()
    spans = [slice(first, end) for first, end in pairwise(batch.offsets.tolist())]
    last = [int(batch.response_mask[span].nonzero()[-1]) for span in spans]
    assert int(torch.tensor(last).argmax()) in seeds(batch).tolist()
    assert bool(torch.isin(seeds(batch), members(seeds(batch), batch.group)).all())
