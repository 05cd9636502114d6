"""Weights of tokens in the loss, against the loss itself, and the clipping of the policy ratio."""

import math

import pytest
import torch
from hypothesis import given

from estimators import Refused
from estimators.loss_weights import LOSS_MODES, loss_weights, token_loss_weights
from estimators.policy_ratio import DUAL, HIGH, INSIDE, LOW, policy_ratio
from tests.estimators.build import batch_of, flat
from tests.estimators.strategies import Rows, law, rows
from tests.oracles import loss as oracle


@pytest.mark.parametrize("mode", LOSS_MODES)
@law
@given(drawn=rows(finite=True))
def test_the_weighted_sum_is_the_loss(mode: str, drawn: Rows) -> None:
    batch = drawn.batch()
    width = float(max([len(row) for row in drawn.mask], default=0))
    expected = oracle.loss(drawn.rewards, drawn.mask, drawn.groups, mode, width)
    weights = token_loss_weights(batch, mode)
    assert math.isclose(float((weights * flat(drawn.rewards)).sum()), expected, rel_tol=1e-9, abs_tol=1e-9)
    assert bool((weights[~batch.response_mask] == 0).all())


def test_a_constant_takes_the_place_of_the_padded_width() -> None:
    batch = batch_of([[1, 1, 0], [1, 0, 0]])
    assert loss_weights(batch, "seq-mean-token-sum-norm").tolist() == [1 / 6, 1 / 6]
    assert loss_weights(batch, "seq-mean-token-sum-norm", 100.0).tolist() == [1 / 200, 1 / 200]
    assert loss_weights(batch, "dr_grpo", 100.0).tolist() == [1 / 200, 1 / 200]


def test_prompts_weigh_the_same_in_the_formula_of_dapo() -> None:
    batch = batch_of([[1] * 6, [1] * 2, [1] * 8], group=["long", "short", "long"])
    assert loss_weights(batch, "dapo").tolist() == pytest.approx([1 / 28, 1 / 4, 1 / 28])


def test_an_unknown_mode_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(Refused, match="seq-mean-token-mean"):
        loss_weights(batch_of([[1]]), "mean")


def test_only_the_side_that_the_advantage_points_to_is_clipped() -> None:
    logs = torch.tensor([0.5, -0.5, 0.5, -0.5, 0.0, 2.0]).log1p().nan_to_num(nan=0.0)
    logs[5] = math.log(5.0)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    found = policy_ratio(torch.zeros(6), logs, advantages, 0.2, 0.28, dual_clip=3.0)
    assert found.side.tolist() == [HIGH, INSIDE, INSIDE, LOW, INSIDE, DUAL]
    expected = torch.tensor([-1.28, -0.5, 1.5, 0.8, -1.0, 3.0])
    torch.testing.assert_close(found.loss, expected)
    assert found.fraction(torch.ones(6, dtype=torch.bool)) == pytest.approx(0.5)
    assert math.isnan(found.fraction(torch.zeros(6, dtype=torch.bool)))


def test_without_the_dual_clip_a_great_ratio_of_a_bad_token_stays() -> None:
    found = policy_ratio(torch.zeros(1), torch.full((1,), math.log(5.0)), torch.tensor([-1.0]))
    assert found.side.tolist() == [INSIDE]
    torch.testing.assert_close(found.loss, torch.tensor([5.0]))
