"""Whitening scopes on the two built-in examples, and each setting by hand."""

import math
from dataclasses import replace

import pytest
import torch

from estimators import Batch, Refused, Request, Result, Whitening, estimate, whiten_rollouts
from estimators.moments import Moments
from estimators.whitening import W_POP, W_TRL, W_VERL
from tests.estimators.build import batch_of


def ask(batch: Batch, whitening: dict[str, object], estimator: str = "dr_grpo", **params: object) -> Result:
    return estimate(
        batch, Request.from_dict({"estimator": estimator, "params": params, "whitening": whitening})
    )


def near(mine: torch.Tensor, wanted: list[float], tolerance: float = 1e-8) -> None:
    torch.testing.assert_close(mine, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=tolerance)


def test_five_rewards_keep_their_sign_until_centred() -> None:
    """{1.0, 0.6, 0.2, 0.0, 0.7}: all at least 0; centring turns two of them negative."""
    rewards = torch.tensor([1.0, 0.6, 0.2, 0.0, 0.7], dtype=torch.float64)
    none, count = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    raw = whiten_rollouts(rewards, none, count, None, Whitening("none"))
    near(raw, [1.0, 0.6, 0.2, 0.0, 0.7])
    whitened = whiten_rollouts(rewards, none, count, None, Whitening("batch", unit="response", eps=0))
    near(whitened, [1.25, 0.25, -0.75, -1.25, 0.5])
    scaled = whiten_rollouts(rewards, none, count, None, Whitening("batch", eps=0, shift_mean=False))
    near(scaled - whitened, [0.5] * 5)


def test_one_task_turns_all_negative_under_batch_scope() -> None:
    """Two tasks whose rewards lie apart: over the batch the harder one loses every positive advantage."""
    scores = torch.tensor([0.9, 1.0, 0.8, 0.9, 0.1, 0.2, 0.0, 0.3], dtype=torch.float64)
    task = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    none, count = torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
    batch = whiten_rollouts(scores, none, count, None, Whitening("batch"))
    own = whiten_rollouts(scores, none, count, task, Whitening("data_source"))
    assert bool((batch[4:] < 0).all()) and bool((batch[:4] > 0).all())
    assert (own[4:] > 0).sum() == 2 and float(own[4:].sum()) == pytest.approx(0)


def test_over_ranks_the_signal_is_wiped_out() -> None:
    batch = replace(
        batch_of([[1, 1, 0, 0], [1, 1, 1, 1]], values=[[-2] * 4, [1] * 4], token_level_rewards=[[0] * 4] * 2),
        rank=torch.tensor([0, 1]),
    )
    whole = ask(batch, {"scope": "batch"}, "td_error", gamma=0)
    near(whole.advantages, [1.290994446, 1.290994446, 0, 0, *[-0.645497223] * 4])
    near(ask(batch, {"scope": "rank"}, "td_error", gamma=0).advantages, [0.0] * 8)


def test_response_unit_gives_each_rollout_one_vote() -> None:
    batch = batch_of([[1], [1] * 5, [1, 0]], ["g"] * 3, [3.0, 0.0, 0.0])
    token = ask(batch, {"scope": "batch", "eps": 0, "unit": "token"})
    response = ask(batch, {"scope": "batch", "eps": 0, "unit": "response"})
    near(response.advantages, [1.1547005384, -0.5773502692, -0.5773502692])
    assert float((token.advantages * torch.tensor([1.0, 5.0, 1.0])).sum()) == pytest.approx(0, abs=1e-12)
    assert float(token.advantages.sum()) != pytest.approx(0, abs=0.1)


def test_epsilon_in_each_place() -> None:
    values = torch.tensor([1.0, 3.0], dtype=torch.float64)
    none, count = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    spread = math.sqrt(2)
    for placement, divisor in (
        ("added", spread + 0.5),
        ("under_root", math.sqrt(2.5)),
        ("floor", spread),
    ):
        setting = Whitening.from_dict({"scope": "batch", "eps": 0.5, "eps_placement": placement})
        near(whiten_rollouts(values, none, count, None, setting), [-1 / divisor, 1 / divisor])
    floored = Whitening("batch", eps=8.0, eps_placement="floor")
    near(whiten_rollouts(values, none, count, None, floored), [-1 / math.sqrt(8), 1 / math.sqrt(8)])
    near(whiten_rollouts(values, none, count, None, Whitening("batch", scale=False)), [-1, 1])


def test_running_scope_includes_the_current_batch() -> None:
    values = torch.tensor([1.0, 3.0], dtype=torch.float64)
    none, count = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    history = [Moments(2, 6.0, 2.0)]
    # Together 1, 3, 5, 7: mean 4, sample variance 20/3.
    std = math.sqrt(20 / 3)
    near(
        whiten_rollouts(values, none, count, None, Whitening("running", eps=0), history), [-3 / std, -1 / std]
    )


def test_a_scope_with_one_value_is_centred_only() -> None:
    batch = batch_of([[1]] * 3, ["a", "b", "b"], [5.0, 1.0, 3.0])
    near(ask(batch, {"scope": "group", "eps": 0}).advantages, [0, -0.7071067812, 0.7071067812])


def test_kernels_of_the_frameworks_on_one_batch() -> None:
    values = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    none, count = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    for kernel, variance in ((W_VERL, 7.0), (W_TRL, 7.0), (W_POP, 14 / 3)):
        wanted = [(x - 3) / math.sqrt(variance) for x in (1, 2, 6)]
        near(whiten_rollouts(values, none, count, None, kernel), wanted)


def test_a_scope_that_was_not_recorded_is_refused() -> None:
    batch = batch_of([[1], [1]], ["g", "g"], [0.0, 1.0])
    with pytest.raises(Refused, match="data_source"):
        ask(batch, {"scope": "data_source"})
    with pytest.raises(Refused, match="at least 2 responses"):
        ask(batch_of([[1, 1]], scores=[1.0]), {"scope": "batch", "unit": "response"})


def test_float32_whitening_of_a_large_offset() -> None:
    """Values near 1e4 in single precision: deviations are from a member, so their spread is not lost."""
    generator = torch.Generator().manual_seed(3)
    values = (10_000 + torch.randn(64 * 1024, generator=generator)).float()
    lengths = torch.full((64,), 1024)
    batch = Batch(
        torch.nn.functional.pad(lengths.cumsum(0), (1, 0)),
        torch.ones(values.shape[0], dtype=torch.bool),
        torch.zeros(64, dtype=torch.int64),
        torch.zeros(64, dtype=torch.float64),
        token_level_rewards=torch.zeros_like(values),
        values=-values,
    )
    request = {
        "estimator": "td_error",
        "params": {"gamma": 0},
        "whitening": {"scope": "batch"},
        "precision": "float32",
    }
    found = estimate(batch, Request.from_dict(request))
    exact = values.double()
    wanted = (exact - exact.mean()) / (exact.var() + 1e-8).sqrt()
    assert float((found.advantages.double() - wanted).abs().max()) < 1e-3
    assert found.moments["token"].m2 == pytest.approx(float((exact - exact.mean()).square().sum()), rel=1e-6)
