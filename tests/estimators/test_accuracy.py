"""How far single precision is from double on the same inputs, and that cost grows with tokens only."""

import numpy as np
import pytest
import torch
from torch import Tensor

from estimators import Batch, Request, estimate, group_statistics
from estimators.layout import CHUNK, TILE, layout_of, make_layout
from estimators.masked import on_tokens
from estimators.tokens import whiten
from estimators.whitening import W_TRL


def regular(rewards: Tensor, values: Tensor, mask: Tensor | None = None) -> Batch:
    rollouts, width = rewards.shape
    return Batch(
        torch.arange(rollouts + 1) * width,
        torch.ones(rollouts * width, dtype=torch.bool) if mask is None else mask.reshape(-1),
        torch.arange(rollouts) // 2,
        torch.zeros(rollouts, dtype=torch.float64),
        token_level_rewards=rewards.reshape(-1),
        values=values.reshape(-1),
    )


@pytest.mark.parametrize("width", [512, 4096, 32768])
@pytest.mark.parametrize(("lam", "drift"), [(0.95, 0.0), (0.99, 0.0), (1.0, 0.0), (1.0, 0.01)])
@pytest.mark.parametrize("gaps", [False, True])
def test_gae_in_single_precision(width: int, lam: float, drift: float, gaps: bool) -> None:
    generator = torch.Generator().manual_seed(width)
    rewards = torch.randn(4, width, generator=generator) * 0.1 + drift
    values = torch.randn(4, width, generator=generator)
    mask = torch.rand(4, width, generator=generator) < 0.7 if gaps else None
    batch = regular(rewards, values, mask)
    found = {}
    for precision in ("float32", "float64"):
        body = {"estimator": "gae", "params": {"lam": lam}, "precision": precision}
        found[precision] = estimate(batch, Request.from_dict(body)).advantages.double()
    error = float((found["float32"] - found["float64"]).abs().max())
    largest = float(found["float64"].abs().max())
    assert error <= (1e-6 * largest if lam == 1 else 2e-6 * max(1.0, largest))


@pytest.mark.parametrize("scope", ["batch", "group"])
def test_whitening_in_single_precision(scope: str) -> None:
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(8, 4096, generator=generator) * 3 + 1
    mask = torch.rand(8, 4096, generator=generator) < 0.6
    batch = regular(values, values, mask)
    setting = Request.from_dict({"estimator": "gae", "whitening": {"scope": scope}}).whitening
    single = whiten(values.reshape(-1), batch, setting).double()
    double = whiten(values.reshape(-1).double(), batch, setting)
    assert float((single - double).abs().max()) <= 5e-6


@pytest.mark.parametrize("first", [0.0, 1e4, -1e6, torch.nan, torch.inf])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_batch_whitening_is_that_of_all_unmasked_tokens_whatever_the_first_is(
    first: float, offset: float
) -> None:
    values = torch.randn(200, 2000, generator=torch.Generator().manual_seed(6)) + offset
    values[0, 0] = first
    mask = torch.rand(200, 2000, generator=torch.Generator().manual_seed(7)) < 0.5
    mask[0, 0] = True
    found = whiten(values.reshape(-1), regular(values, values, mask), W_TRL)[mask.reshape(-1)].double()
    taken = values[mask].double()
    kept = torch.isfinite(taken)
    wanted = (taken - taken[kept].mean()) / (taken[kept].var() + 1e-8).sqrt()
    # An offset costs the digits that it takes in single precision.
    bound = 5e-6 * max(1.0, float(wanted[kept].abs().max())) + 1e-7 * offset
    assert float((found - wanted)[kept].abs().max()) <= bound


def test_who_is_trained_has_an_unmasked_token() -> None:
    draw = torch.Generator().manual_seed(3)
    for share in (0.0, 0.2, 0.9, 1.0):
        for first in (True, False):
            mask = torch.rand(20, 7, generator=draw) < share
            mask[:, 0] |= first
            batch = regular(torch.zeros(20, 7), torch.zeros(20, 7), mask)
            assert torch.equal(batch.trained, mask.any(dim=1))
            assert torch.equal(batch.unmasked > 0, batch.trained)


def test_group_statistics_far_from_zero() -> None:
    generator = torch.Generator().manual_seed(9)
    scores = (1e6 + 0.5 * torch.randn(4096, generator=generator)).double()
    group = torch.arange(4096) % 512
    found = group_statistics(scores, group)
    for number in (0, 511):
        members = scores[group == number].numpy()
        exact = np.array(members, dtype=np.longdouble)
        assert float(found.mean[number]) == pytest.approx(float(exact.mean()), rel=1e-15)
        assert float(found.std(1)[number]) == pytest.approx(float(exact.std(ddof=1)), rel=1e-9)


def test_whitened_advantages_have_mean_zero_and_spread_one() -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(300, 1000, generator=generator, dtype=torch.float64) * 7 + 100
    mask = torch.rand(300, 1000, generator=generator) < 0.5
    batch = regular(values, values, mask)
    assert len(layout_of(batch).tiles) == 1
    out = whiten(values.reshape(-1), batch, W_TRL)[mask.reshape(-1)]
    assert float(out.mean()) == pytest.approx(0, abs=1e-12)
    assert float(out.std()) == pytest.approx(1, rel=1e-6)


def test_results_do_not_depend_on_what_else_was_computed() -> None:
    """Buffers are reused: an estimate of another batch in between changes nothing."""
    generator = torch.Generator().manual_seed(2)
    batch = regular(*torch.randn(2, 8, 100, generator=generator, dtype=torch.float64))
    other = regular(*torch.full((2, 50, 333), torch.nan, dtype=torch.float64))
    request = Request.from_dict({"convention": "gae/openrlhf"})
    before = estimate(batch, request)
    kept = before.advantages.clone()
    with pytest.raises(ValueError, match="Whitening over the batch"):
        estimate(other, request)
    torch.testing.assert_close(estimate(batch, request).advantages, kept, rtol=0, atol=0)
    torch.testing.assert_close(before.advantages, kept, rtol=0, atol=0)
    assert batch.values is not None and batch.token_level_rewards is not None
    assert bool(torch.isfinite(batch.values).all())


@pytest.mark.parametrize("lengths", [[3, 0, 2], [4, 4], [], [70_000, 1, 70_000], [70_000] * 3])
def test_one_number_per_rollout_on_its_unmasked_tokens(lengths: list[int]) -> None:
    mask = torch.rand(sum(lengths), generator=torch.Generator().manual_seed(4)) < 0.5
    numbers = torch.arange(1, len(lengths) + 1, dtype=torch.float64)
    numbers[:1] = torch.inf
    wanted = [
        n if m else 0.0
        for n, m in zip(np.repeat(numbers.numpy(), lengths).tolist(), mask.tolist(), strict=True)
    ]
    assert on_tokens(numbers, mask, torch.tensor(lengths, dtype=torch.int64)).tolist() == wanted


def test_one_long_rollout_among_many_short_ones_does_not_blow_up_the_grid() -> None:
    """The grid of chunk totals is rollouts × the longest: tiles are cut so that it stays in proportion."""
    lengths = torch.tensor([*[1] * 5000, 200_000, *[1] * 5000, 200_000, *[1] * 5000])
    layout = make_layout(torch.nn.functional.pad(lengths.cumsum(0), (1, 0)), None)
    assert max(tile.rows * tile.width for tile in layout.tiles) <= 2 * TILE // CHUNK
    assert sum(tile.rows for tile in layout.tiles) == len(lengths)
    assert len(layout.tiles) < 20


@pytest.mark.parametrize("width", [512, 32768])
@pytest.mark.parametrize(
    ("estimator", "params", "relative"),
    [
        ("reward_to_go", {"gamma": 1.0}, 1e-6),
        ("reward_to_go", {"gamma": 0.99, "masked_tokens": "plain"}, 2e-6),
        ("gae", {"gamma": 1.0, "length_adaptive_alpha": 0.05}, 2e-6),
        ("gae", {"gamma": 0.99, "length_adaptive_alpha": 0.05, "gae_lambda_value": 1.0}, 2e-6),
    ],
)
def test_sums_over_tokens_in_single_precision(
    width: int, estimator: str, params: dict[str, object], relative: float
) -> None:
    generator = torch.Generator().manual_seed(width + 1)
    rewards = torch.randn(4, width, generator=generator) * 0.1 + 0.01
    mask = torch.rand(4, width, generator=generator) < 0.7
    batch = regular(rewards, torch.randn(4, width, generator=generator), mask)
    found = {}
    for precision in ("float32", "float64"):
        body = {"estimator": estimator, "params": params, "precision": precision}
        found[precision] = estimate(batch, Request.from_dict(body)).advantages.double()
    error = float((found["float32"] - found["float64"]).abs().max())
    assert error <= relative * max(1.0, float(found["float64"].abs().max()))
