"""A sweep says of each point what an estimate of its own says, whichever way it is computed."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from estimators import CONVENTIONS, Batch, Request, estimate
from estimators.spread import MOST_SAMPLED, QUANTILES, Outcome, spread_of
from estimators.sweep import MOST_POINTS, points_of, sweep
from estimators.sweep_gae import gae_outcomes
from tests.estimators.build import batch_of
from tests.estimators.strategies import Rows, law, rows

GRID = {"gamma": [1.0, 0.9, 0.0], "lam": [0.95, 1.0, 0.5]}


def separate(batch: Batch, point: Outcome) -> torch.Tensor:
    """The unmasked advantages of an estimate of that point."""
    return estimate(batch, point.request).advantages[batch.response_mask].double()


def close(found: float, expected: float, size: float = 1.0) -> bool:
    return (math.isnan(found) and math.isnan(expected)) or abs(found - expected) <= 1e-9 * max(size, 1.0)


def check(batch: Batch, points: list[Outcome], found: list[Outcome]) -> None:
    assert [each.changed for each in found] == [each.changed for each in points]
    first: torch.Tensor | None = None
    for point, outcome in zip(points, found, strict=True):
        if outcome.refused is not None:
            continue
        assert outcome.spread is not None and outcome.raw is not None and outcome.per_token
        expected = separate(batch, point)
        first = expected if first is None else first
        own, size = spread_of(expected), float(expected.nan_to_num().abs().max()) if len(expected) else 0.0
        assert outcome.spread.moments.count == own.moments.count
        assert outcome.spread.undefined == own.undefined
        assert close(outcome.spread.moments.mean, own.moments.mean, size)
        assert close(outcome.spread.moments.m2, own.moments.m2, size * size * len(expected))
        assert close(outcome.spread.least, own.least, size)
        assert close(outcome.spread.greatest, own.greatest, size)
        assert all(map(lambda a, b: close(a, b, size), outcome.spread.quantiles, own.quantiles))
        near = int((expected.abs() < 1e-9 * max(size, 1.0)).sum())  # may fall on either side of 0
        assert abs(outcome.spread.negative - own.negative) <= near
        assert abs(outcome.spread.positive - own.positive) <= near
        flips = int(((expected < 0) & (first > 0) | (expected > 0) & (first < 0)).sum())
        assert abs(outcome.flips - flips) <= near + int((first.abs() < 1e-9 * max(size, 1.0)).sum())


@law
@given(rows(finite=True, least=1))
def test_pairs_of_one_packing_equal_estimates_of_their_own(given: Rows) -> None:
    batch = given.batch()
    for whitening in ({}, {"scope": "batch"}, {"scope": "batch", "shift_mean": False, "ddof": 0}):
        points = points_of({"estimator": "gae", "whitening": whitening}, GRID)
        quick = gae_outcomes(batch, points)
        assert quick is not None
        check(batch, points, list(quick))


@law
@given(rows())
def test_any_batch_can_be_swept(given: Rows) -> None:
    batch = given.batch()
    points = points_of({"estimator": "gae", "whitening": {"scope": "group"}}, GRID)
    check(batch, points, list(sweep(batch, points)))
    for point in sweep(batch, points_of({"estimator": "gae", "whitening": {"scope": "batch"}}, GRID)):
        assert (point.refused is None) == (point.spread is not None)


@pytest.mark.parametrize("name", [name for name, each in CONVENTIONS.items() if each.estimator == "gae"])
def test_every_convention_of_gae(name: str) -> None:
    generator = torch.Generator().manual_seed(7)
    mask = [[float(i % 5 != 2) for i in range(n)] for n in (40, 33, 64, 3)]
    numbers: Any = [[float(x) for x in torch.randn(len(row), generator=generator)] for row in mask]
    batch = batch_of(mask, token_level_rewards=numbers, values=[row[::-1] for row in numbers])
    points = points_of({"convention": name}, GRID)
    check(batch, points, list(sweep(batch, points)))


def test_an_estimator_of_one_number_per_rollout() -> None:
    batch = batch_of([[1, 1], [1], [1], [0]], [0, 0, 1, 1], [1.0, 0.0, 0.25, 0.75])
    outcomes = list(sweep(batch, points_of({"estimator": "grpo"}, {"epsilon": [1e-6, 1.0]})))
    for outcome, epsilon in zip(outcomes, (1e-6, 1.0), strict=True):
        assert outcome.spread is not None and not outcome.per_token and outcome.flips == 0
        assert outcome.spread.moments.count == 3  # the masked rollout has no advantage on any token
        assert outcome.spread.greatest == pytest.approx(0.5 / (0.5**0.5 + epsilon))


def test_settings_of_the_whitening_can_be_swept_and_flips_are_against_the_first() -> None:
    batch = batch_of([[1, 1, 1, 1]], token_level_rewards=[[1.0, 2.0, 3.0, 4.0]], values=[[0.0] * 4])
    grid = {"whitening.scope": ["none", "batch"]}
    raw, whitened = sweep(batch, points_of({"estimator": "gae", "params": {"lam": 0.0, "gamma": 0.0}}, grid))
    assert raw.spread is not None and whitened.spread is not None
    assert (raw.flips, raw.spread.positive) == (0, 4)
    assert (whitened.flips, whitened.spread.negative, whitened.spread.positive) == (2, 2, 2)
    assert whitened.raw is not None and whitened.raw.mean == 2.5


def test_a_point_that_is_refused_says_why_and_the_others_stand() -> None:
    batch = batch_of([[1]], token_level_rewards=[[1.0]], values=[[0.0]])
    points = points_of({"estimator": "gae"}, {"whitening.scope": ["batch", "none"]})
    refused, fine = sweep(batch, points)
    assert refused.refused is not None and "at least 2 unmasked tokens" in refused.refused
    assert fine.refused is None and fine.spread is not None and fine.spread.moments.count == 1


def test_quantiles_of_many_numbers_are_of_an_even_sample_of_them() -> None:
    tokens = 3 * MOST_SAMPLED + 17
    values = torch.linspace(-1.0, 1.0, tokens, dtype=torch.float64)
    batch = Batch(
        offsets=torch.tensor([0, tokens]),
        response_mask=torch.ones(tokens, dtype=torch.bool),
        group=torch.zeros(1, dtype=torch.int64),
        scores=torch.zeros(1, dtype=torch.float64),
        token_level_rewards=values,
        values=torch.zeros(tokens, dtype=torch.float64),
    )
    points = points_of({"estimator": "gae", "params": {"lam": 0.0}}, {"gamma": [0.0]})
    quick = gae_outcomes(batch, points)
    assert quick is not None
    (found,) = quick
    assert found.spread is not None and MOST_SAMPLED // 2 < found.spread.sampled <= MOST_SAMPLED
    expected = [2 * q - 1 for q in QUANTILES]
    assert found.spread.quantiles == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("body", "grid", "words"),
    [
        ({"estimator": "gae"}, {}, "needs a grid"),
        ({"estimator": "gae"}, {"lam": []}, "grid.lam is empty"),
        ({"estimator": "gae"}, {"lam": [0.5] * 300}, f"300 points, and a sweep takes {MOST_POINTS}"),
        ({"estimator": "gae"}, {"lam": [0.5] * 20, "gamma": [1.0] * 20}, "20 × 20 = 400 points"),
        ({"estimator": "gae", "params": {"lam": 1.0}}, {"lam": [0.5]}, "lam is in the grid and in params"),
        ({"estimator": "gae"}, {"lambda": [0.5]}, "has no 'lambda'"),
        ({"estimator": "gae"}, {"lam": [2.0]}, "at most 1"),
        ({"estimator": "gae"}, {"whitening.scope": ["running"]}, "running scope"),
        ({}, {"lam": [0.5]}, "needs an estimator"),
    ],
)  # fmt: skip
def test_what_no_sweep_can_be_made_of(body: dict[str, Any], grid: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        points_of(body, grid)


def test_a_convention_takes_names_of_its_framework_and_spells_the_request_out() -> None:
    (point,) = points_of({"convention": "gae/verl"}, {"lam": [0.5]})
    assert point.request == Request.from_dict({"convention": "gae/verl", "params": {"lam": 0.5}})
