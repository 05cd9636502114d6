"""Arithmetic as the frameworks do it, beside their operations written out group by group: single precision
bit by bit, scores that are not finite, spreads that overflow, rollouts without a trainable token."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from estimators import Refused, Request, estimate
from tests.estimators.build import batch_of

Group = Callable[[Tensor], Tensor]
NAN, INF = math.nan, math.inf


def verl(scores: Tensor) -> Tensor:
    if len(scores) == 1:
        return scores / (torch.tensor(1.0) + 1e-6)
    stacked = torch.stack(list(scores))
    return (scores - torch.mean(stacked)) / (torch.std(stacked) + 1e-6)


def verl_rloo(scores: Tensor) -> Tensor:
    n = len(scores)
    return scores if n == 1 else scores * n / (n - 1) - torch.mean(scores) * n / (n - 1)


def skyrl_rloo(scores: Tensor) -> Tensor:
    n = len(scores)
    return torch.zeros_like(scores) if n == 1 else (scores - torch.mean(scores)) * (n / (n - 1))


def verl_centred(scores: Tensor) -> Tensor:
    return scores if len(scores) == 1 else scores - torch.mean(scores)


def openrlhf(rows: Tensor) -> Tensor:
    found = (rows - rows.mean(-1, keepdim=True)) / (rows.std(-1, keepdim=True) + 1e-9)
    return found.clamp(-10, 10)


def slime(rows: Tensor) -> Tensor:
    rows = rows - rows.mean(dim=-1, keepdim=True)
    return rows / (rows.std(dim=-1, keepdim=True) + 1e-6)


def roll(rows: Tensor) -> Tensor:
    return (rows - rows.mean(dim=-1, keepdim=True)) / (torch.std(rows, dim=-1, keepdim=True) + 1e-6)


def trl(rows: Tensor) -> Tensor:
    mean = torch.nanmean(rows, dim=1, keepdim=True)
    variance = torch.nanmean((rows - mean) ** 2, dim=1, keepdim=True)
    count = torch.sum(~torch.isnan(rows), dim=1, keepdim=True)
    variance *= torch.where(count > 1, count / (count - 1), torch.nan)
    return torch.nan_to_num((rows - mean) / (torch.sqrt(variance) + 1e-4), nan=0.0)


def trl_rloo(rows: Tensor) -> Tensor:
    count = (~torch.isnan(rows)).sum(dim=1, keepdim=True)
    baselines = (torch.nansum(rows, dim=1, keepdim=True) - rows) / (count - 1)
    return torch.nan_to_num(rows - baselines, nan=0.0)


def openrlhf_rloo(rows: Tensor) -> Tensor:
    baseline = (rows.sum(-1, keepdim=True) - rows) / (rows.shape[1] - 1)
    return (rows - baseline).clamp(-10, 10)


def prime_maxrl(scores: Tensor) -> Tensor:
    mean = scores.mean()
    return torch.zeros_like(scores) if mean <= 0 else (scores - mean) / mean


#: Convention, its formula for the scores of one group, the least size of a group.
LOOPS: tuple[tuple[str, Group, int], ...] = (
    ("grpo/verl", verl, 1),
    ("grpo/skyrl", verl, 1),
    ("dr_grpo/verl", verl_centred, 1),
    ("dr_grpo/prime-rl", verl_centred, 2),
    ("rloo/verl", verl_rloo, 1),
    ("rloo/skyrl", skyrl_rloo, 1),
    ("maxrl/prime-rl", prime_maxrl, 2),
)

#: Of a matrix of groups, a group in each row: they all have one size.
ROWS: tuple[tuple[str, Group], ...] = (
    ("grpo/openrlhf", openrlhf),
    ("grpo/slime", slime),
    ("grpo/roll", roll),
    ("grpo/trl-group", trl),
    ("rloo/trl", trl_rloo),
    ("rloo/openrlhf", openrlhf_rloo),
)

#: Rewards that are no binary fractions, equal ones, ones around a large offset.
SCORES = st.one_of(
    st.sampled_from([0.1, 0.3, 0.7, 100.1]).flatmap(lambda x: st.lists(st.just(x), min_size=2, max_size=17)),
    st.lists(st.sampled_from([0.1, 0.7, 1.0, 0.0]), min_size=1, max_size=17),
    st.lists(st.floats(-3, 3, width=32).map(lambda x: 100.0 + x), min_size=1, max_size=33),
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=12),
)


@pytest.mark.parametrize(("convention", "formula", "least"), LOOPS, ids=[each[0] for each in LOOPS])
@settings(max_examples=40, deadline=None)
@given(groups=st.lists(SCORES, min_size=1, max_size=5), shuffle=st.randoms(use_true_random=False))
def test_single_precision_is_the_frameworks_bit_by_bit(
    convention: str, formula: Group, least: int, groups: list[list[float]], shuffle: object
) -> None:
    groups = [each for each in groups if len(each) >= least] or [[0.1, 0.1, 0.7]]
    rows = [(number, score) for number, scores in enumerate(groups) for score in scores]
    shuffle.shuffle(rows)  # type: ignore[attr-defined] # a random.Random
    names, scores = [f"g{number}" for number, _ in rows], [score for _, score in rows]
    batch = batch_of([[1]] * len(rows), names, scores)
    found = estimate(batch, Request.from_dict({"convention": convention, "precision": "float32"})).advantages
    assert found.dtype == torch.float32
    for number in range(len(groups)):
        places = [i for i, row in enumerate(rows) if row[0] == number]
        wanted = formula(torch.tensor([scores[i] for i in places], dtype=torch.float32))
        assert torch.equal(found[places], wanted), (convention, found[places].tolist(), wanted.tolist())


@pytest.mark.parametrize(("convention", "formula"), ROWS, ids=[each[0] for each in ROWS])
@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 17).flatmap(
        lambda size: st.lists(
            st.one_of(
                st.sampled_from([0.1, 0.3, 0.7, 100.1]).map(lambda x: [x] * size),
                st.lists(st.sampled_from([0.1, 0.7, 1.0, 0.0, None]), min_size=size, max_size=size),
                st.lists(st.floats(99, 101, width=32), min_size=size, max_size=size),
            ),
            min_size=1,
            max_size=5,
        )
    )
)
def test_single_precision_of_a_matrix_of_groups_too(
    convention: str, formula: Group, table: list[list[float | None]]
) -> None:
    """Rewards of None are TRL's; the others know none."""
    if not convention.endswith(("trl", "trl-group")):
        table = [[0.3 if x is None else x for x in row] for row in table]
    rows = torch.tensor([[NAN if x is None else x for x in row] for row in table], dtype=torch.float32)
    names = [f"g{number}" for number, row in enumerate(table) for _ in row]
    batch = batch_of([[1]] * rows.numel(), names, [x for row in table for x in row])
    found = estimate(batch, Request.from_dict({"convention": convention, "precision": "float32"})).advantages
    wanted = formula(rows).flatten()
    assert torch.equal(found, wanted), (found.tolist(), wanted.tolist())


@pytest.mark.parametrize("odd", [NAN, INF, -INF])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("convention", "formula"),
    [(name, formula) for name, formula, _ in LOOPS],
    ids=[each[0] for each in LOOPS],
)
def test_a_recorded_score_that_is_not_finite_spoils_its_group_and_no_other(
    convention: str, formula: Group, precision: str, odd: float
) -> None:
    scores = [1.0, odd, 0.0, 0.5, 1.0, 0.25]
    batch = batch_of([[1]] * 6, list("aaabbb"), scores, reward_nan=[math.isnan(x) for x in scores])
    found = estimate(batch, Request.from_dict({"convention": convention, "precision": precision})).advantages
    dtype = torch.float32 if precision == "float32" else torch.float64
    wanted = torch.cat([formula(torch.tensor(part, dtype=dtype)) for part in (scores[:3], scores[3:])])
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=1e-6, atol=1e-6)


def test_one_score_that_is_not_finite_spoils_whatever_is_whitened_with_it() -> None:
    batch = batch_of([[1]] * 4, list("aabb"), [1.0, INF, 0.0, 1.0])
    for convention in ("reinforce_plus_plus_baseline/verl", "gdpo/verl", "batch_z/rllm", "grpo/lite-ppo"):
        found = estimate(batch, Request.from_dict({"convention": convention})).advantages
        assert bool(found.isnan().all()), convention


def test_a_score_that_was_not_recorded_spoils_nothing() -> None:
    batch = batch_of([[1]] * 4, list("aaaa"), [1.0, None, 0.0, 1.0])
    found = estimate(batch, Request.from_dict({"convention": "dr_grpo/verl"})).advantages
    torch.testing.assert_close(found[[0, 2, 3]], torch.tensor([1 / 3, -2 / 3, 1 / 3]).double())
    assert bool(found[1].isnan())


@pytest.mark.parametrize(
    "body",
    [
        {"convention": "grpo/verl"},
        {"convention": "grpo/nemo-loo"},
        {"convention": "grpo/trl-batch"},
        {"convention": "grpo_passk/verl"},
        {"convention": "grpo_vectorized/verl"},
        {"convention": "batch_z/rllm"},
        {"convention": "reinforce_plus_plus_baseline/verl"},
        {"convention": "dr_grpo/verl", "precision": "float32"},
    ],
    ids=str,
)
def test_spreads_whose_squares_overflow_are_refused(body: dict[str, str]) -> None:
    batch = batch_of([[1]] * 6, list("aaabbb"), [1.0, -1e200, 1e200, 0.0, 1.0, 0.0])
    with pytest.raises(Refused, match="overflow"):
        estimate(batch, Request.from_dict(body))


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans(), st.integers(0, 2)), min_size=4, max_size=16))
def test_whitening_over_responses_counts_fully_masked_ones(rows: list[tuple[int, bool, int]]) -> None:
    """As rLLM: the population std of all centred rewards, whatever the masks."""
    scores = torch.tensor([float(score) for score, _, _ in rows], dtype=torch.float64)
    group = torch.tensor([number for _, _, number in rows])
    batch = batch_of(
        [[int(live), 1 - int(live)] if live else [0, 0] for _, live, _ in rows],
        group.tolist(),
        scores.tolist(),
    )
    centred = scores.clone()
    for number in torch.unique(group):
        centred[group == number] -= scores[group == number].mean()
    wanted = centred / (centred.std(correction=0) + 1e-6)
    body = {"convention": "reinforce_plus_plus_baseline/rllm"}
    torch.testing.assert_close(
        estimate(batch, Request.from_dict(body)).advantages, wanted, rtol=1e-9, atol=1e-7
    )
