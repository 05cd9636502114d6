"""The recursions over tokens, their rewards and KL, against slow and obvious loops."""

import math
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from estimators import Batch, Refused, Request, Result, estimate, missing
from estimators.every import LossAggregation
from estimators.kl import kl_penalty
from estimators.levels import LevelNorm, normalised
from estimators.loss_weights import LOSS_MODES
from tests.estimators.build import batch_of, flat
from tests.estimators.strategies import NUMBERS, Rows, law, rows
from tests.oracles import recursions as oracle

RATES = st.sampled_from([0.0, 0.5, 0.97, 1.0])


def asked(batch: Batch, name: str, whitening: dict[str, Any] | None = None, **params: Any) -> Result:
    body: dict[str, Any] = {"estimator": name, "params": params}
    return estimate(batch, Request.from_dict({**body, "whitening": whitening or {"zero_masked": False}}))


def same(mine: Tensor | None, wanted: list[list[float]]) -> None:
    assert mine is not None
    torch.testing.assert_close(mine, flat(wanted), rtol=1e-9, atol=1e-9, equal_nan=True)


@law
@given(rows(finite=True), RATES, RATES, st.sampled_from(["skip", "zero", "plain", "one_behind", "cut"]))
def test_gae(case: Rows, gamma: float, lam: float, rule: str) -> None:
    found = asked(case.batch(), "gae", gamma=gamma, lam=lam, masked_tokens=rule)
    given_rows = zip(case.rewards, case.values, case.mask, strict=True)
    wanted = [oracle.gae(r, v, m, gamma, lam, rule) for r, v, m in given_rows]
    same(found.advantages, [advantages for advantages, _ in wanted])
    same(found.returns, [returns for _, returns in wanted])


@law
@given(
    rows(finite=True, least=1),
    RATES,
    st.sampled_from(["skip", "zero", "plain"]),
    st.lists(st.sampled_from([None, 0.5, -2.0]), min_size=7, max_size=7),
    st.lists(st.booleans(), min_size=7, max_size=7),
)
def test_gae_goes_on_with_the_value_behind_a_rollout_that_did_not_terminate(
    case: Rows, gamma: float, rule: str, behind: list[float | None], terminated: list[bool]
) -> None:
    count = len(case.mask)
    batch = batch_of(
        case.mask,
        token_level_rewards=case.rewards,
        values=case.values,
        bootstrap_value=behind[:count],
        terminated=terminated[:count],
    )
    found = asked(batch, "gae", gamma=gamma, lam=0.9, masked_tokens=rule, bootstrap="recorded")
    wanted = []
    for i, mask in enumerate(case.mask):
        after = 0.0 if terminated[i] else behind[i] or 0.0
        wanted.append(oracle.gae(case.rewards[i], case.values[i], mask, gamma, 0.9, rule, after)[0])
    same(found.advantages, wanted)


@law
@given(rows(finite=True), st.sampled_from([0.05, 0.5, 3.0]), RATES)
def test_gae_with_a_lambda_for_each_length(case: Rows, alpha: float, other: float) -> None:
    found = asked(
        case.batch(), "gae", gamma=0.98, length_adaptive_alpha=alpha, gae_lambda_value=other, lam=0.3
    )
    advantages, returns = [], []
    for r, v, m in zip(case.rewards, case.values, case.mask, strict=True):
        lam = 1 - 1 / max(alpha * sum(m), 1)
        advantages.append(oracle.gae(r, v, m, 0.98, lam, "skip")[0])
        returns.append(oracle.gae(r, v, m, 0.98, other, "skip")[1])
    same(found.advantages, advantages)
    same(found.returns, returns)


@law
@given(rows(), RATES, st.sampled_from(["skip", "zero", "plain", "reset"]))
def test_reward_to_go(case: Rows, gamma: float, rule: str) -> None:
    found = asked(_rewarded(case), "reward_to_go", gamma=gamma, masked_tokens=rule)
    pairs = zip(_usable(case), case.mask, strict=True)
    same(found.advantages, [oracle.to_go(r, m, gamma, rule) for r, m in pairs])


def _usable(case: Rows) -> list[list[float]]:
    """The rewards, but for rollouts without one: there the score is on the last unmasked token."""
    found = []
    for row, mask, score in zip(case.rewards, case.mask, case.scores, strict=True):
        if row and all(math.isnan(x) for x in row):
            last = max((t for t, m in enumerate(mask) if m), default=None)
            row = [score if t == last else 0.0 for t in range(len(row))]
        found.append(row)
    return found


def _rewarded(case: Rows) -> Batch:
    return batch_of(case.mask, case.groups, case.scores, token_level_rewards=case.rewards)


@law
@given(rows(finite=True), RATES)
def test_reinforce_plus_plus_is_reward_to_go_with_returns_off_masked_tokens(case: Rows, gamma: float) -> None:
    found = asked(_rewarded(case), "reinforce_plus_plus", gamma=gamma)
    pairs = list(zip(case.rewards, case.mask, strict=True))
    plain = [oracle.to_go(r, m, gamma, "skip") for r, m in pairs]
    same(found.advantages, plain)
    owned = zip(plain, case.mask, strict=True)
    same(found.returns, [[g * m for g, m in zip(row, mask, strict=True)] for row, mask in owned])


@law
@given(rows(finite=True))
def test_remax(case: Rows) -> None:
    found = asked(case.batch(), "remax")
    wanted = [oracle.remax(r, m, s) for r, m, s in zip(case.rewards, case.mask, case.scores, strict=True)]
    same(found.advantages, [advantages for advantages, _ in wanted])
    same(found.returns, [returns for _, returns in wanted])


@law
@given(rows(finite=True), st.booleans(), st.booleans())
def test_optimal_token_baselines(case: Rows, tir: bool, zero_tail: bool) -> None:
    # Greater by 1.5 than could be, so that no weight is about 0: rounding would decide what ε leaves of it.
    energies = [[1 - 2 * math.exp(-abs(v)) + abs(math.sin(v)) + 1.5 for v in row] for row in case.values]
    batch = case.batch()
    assert batch.sum_pi_squared is not None
    batch = replace(batch, sum_pi_squared=batch.sum_pi_squared + 1.5)
    name = "tir_optimal_token_baseline" if tir else "optimal_token_baseline"
    found = asked(batch, name, handle_zero_tail=zero_tail)
    wanted = oracle.token_baseline(
        case.rewards, case.mask, case.groups, energies, unmasked_only=tir, zero_tail=zero_tail
    )
    same(found.advantages, wanted)


@pytest.mark.parametrize("clamp", ["verl", "openrlhf", "nemo", "slime", "none"])
@pytest.mark.parametrize("name", ["kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k3+"])
def test_kl_and_its_clamps(clamp: Any, name: str) -> None:
    pairs = [(-0.1, -30.0), (-30.0, -0.1), (-1.5, -1.5), (-2.0, -14.0), (-13.0, -1.0), (-1.0, -0.9)]
    logs, refs = (torch.tensor(part, dtype=torch.float64) for part in zip(*pairs, strict=True))
    wanted = [oracle.kl(log, ref, name.removesuffix("+"), clamp) for log, ref in pairs]
    torch.testing.assert_close(kl_penalty(logs, refs, name, clamp), torch.tensor(wanted, dtype=torch.float64))


@law
@given(
    st.lists(st.tuples(NUMBERS, st.sampled_from("abc")), min_size=1, max_size=9),
    st.sampled_from(["batch", "group", None]),
    st.sampled_from(["batch", "group", None]),
    st.booleans(),
)
def test_rewards_normalised_on_two_levels(
    drawn: list[tuple[float, str]], mean_level: Any, std_level: Any, leave_out: bool
) -> None:
    scores, groups = [s for s, _ in drawn], [g for _, g in drawn]
    batch = batch_of([[1]] * len(scores), groups, scores)
    norm = LevelNorm(mean_level=mean_level, std_level=std_level, mean_leave1out=leave_out)
    found = normalised(batch.scores, batch, norm)
    wanted = oracle.levels(scores, groups, mean_level, std_level, leave_out)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-7, atol=1e-7)


@law
@given(
    rows(finite=True, least=1),
    st.sampled_from(["none", "group", "batch"]),
    st.sampled_from(["group", "batch"]),
)
def test_whitening_around_the_mean_of_another_level(case: Rows, mean_level: str, std_level: str) -> None:
    batch = batch_of([[1] * len(row) for row in case.mask], case.groups, token_level_rewards=case.rewards)
    whitening = {"scope": std_level, "mean_scope": mean_level, "eps": 1e-5, "eps_placement": "added"}
    found = asked(batch, "reward_to_go", whitening, gamma=0.0)
    wanted = oracle.two_level_whitening(case.rewards, case.groups, mean_level, std_level, 1e-5)
    # Where nothing spreads rounding over ε is all there is.
    torch.testing.assert_close(found.advantages, flat(wanted), rtol=1e-7, atol=1e-7)


def test_truncated_rollouts_are_kept_masked_or_dropped() -> None:
    batch = batch_of([[1, 1]] * 3, ["q"] * 3, [1.0, 0.0, 4.0], truncated=[False, False, True])

    def centred(rule: str) -> list[float]:
        return asked(
            batch, "dr_grpo", {"scope": "batch", "scale": False}, truncation=rule
        ).advantages.tolist()

    assert centred("keep") == pytest.approx([-2 / 3, -5 / 3, 7 / 3])
    # Its reward still counts in the group; the mean of the batch is that of the other two.
    assert centred("mask") == pytest.approx([0.5, -0.5, 3.5])
    dropped = centred("drop")
    assert dropped[:2] == pytest.approx([0.5, -0.5]) and math.isnan(dropped[2])


def test_dropping_closes_the_tokens_up() -> None:
    batch = batch_of(
        [[1, 0, 1], [1], [1, 1]],
        token_level_rewards=[[1.0, 2.0, 3.0], [9.0], [4.0, 5.0]],
        truncated=[False, True, False],
    )
    found = asked(batch, "reward_to_go", truncation="drop")
    same(found.advantages, [[4.0, 3.0, 3.0], [math.nan], [9.0, 5.0]])
    assert found.summaries.count.tolist() == [2.0, 0.0, 2.0]


def test_what_is_clipped_is_summed_up_as_clipped() -> None:
    batch = batch_of([[1, 1, 1]], token_level_rewards=[[0.5, -8.0, 3.0]])
    found = asked(batch, "reward_to_go", {"clip": 2.0}, gamma=0.0)
    assert found.advantages.tolist() == [0.5, -2.0, 2.0]
    assert found.summaries.mean.tolist() == pytest.approx([0.5 / 3])
    assert (found.summaries.min.tolist(), found.summaries.total_abs.tolist()) == ([-2.0], [4.5])


def test_too_few_tokens_are_left_as_they_are_where_asked_for() -> None:
    batch = batch_of([[1, 0]], token_level_rewards=[[1.0, 0.0]])
    whitening = {"scope": "batch", "too_few": "skip"}
    assert asked(batch, "reward_to_go", whitening).advantages.tolist() == [1.0, 0.0]
    with pytest.raises(Refused, match="at least 2"):
        asked(batch, "reward_to_go", {"scope": "batch"})


def test_a_configuration_of_areal_can_be_pasted() -> None:
    config = {
        "discount": 0.99,
        "gae_lambda": 0.95,
        "reward_clip": 5.0,
        "reward_norm": {"mean_level": "group", "std_level": None, "mean_leave1out": True},
        "adv_norm": {"mean_level": "group", "std_level": "batch"},
    }
    request = Request.from_dict({"convention": "gae/areal", "params": config})
    assert request.params.reward_clip_range == (-5.0, 5.0)
    assert request.params.reward_norm == LevelNorm(std_level=None, mean_leave1out=True)
    assert (request.whitening.scope, request.whitening.mean_scope) == ("batch", "group")
    assert Request.from_dict(request.to_dict()) == request
    with pytest.raises(ValueError, match="mean_levl"):
        Request.from_dict({"convention": "gae/areal", "params": {"reward_norm": {"mean_levl": "group"}}})
    with pytest.raises(ValueError, match="adv_norm is"):
        Request.from_dict({"convention": "gae/areal", "params": {"adv_norm": {"mean_leave1out": True}}})


@pytest.mark.parametrize(
    ("convention", "key", "rule"),
    [
        ("grpo/trl-group", "mask_truncated_completions", "mask"),
        ("grpo/nemo", "overlong_filtering", "mask"),
        ("gae/nemo", "overlong_filtering", "mask"),
        ("grpo/roll", "max_len_mask", "mask"),
        ("grpo/open-instruct", "mask_truncated_completions", "drop"),
    ],
)
def test_each_framework_has_its_own_word_for_truncated_rollouts(convention: str, key: str, rule: str) -> None:
    def read(value: Any) -> Request:
        return Request.from_dict({"convention": convention, "params": {key: value}})

    assert read(True).params.truncation == rule
    assert read(False).params.truncation == "keep"
    with pytest.raises(ValueError, match=key):
        read("yes")
    lone = batch_of([[1]], ["q"], [1.0], values=[[0.0]])
    assert "truncated" in missing(lone, read(True)) and "truncated" not in missing(lone, read(False))


def test_every_loss_mode_can_be_asked_for() -> None:
    assert set(get_args(LossAggregation)) == set(LOSS_MODES)


def test_skyrl_takes_off_the_mean_of_the_padded_matrix() -> None:
    batch = batch_of([[1, 1, 1], [1, 0, 0]], ["q", "q"], [3.0, 1.0])
    params = {"advantage_batch_normalize": True, "grpo_norm_by_std": False}
    found = estimate(batch, Request.from_dict({"convention": "grpo/skyrl", "params": params}))
    # Advantages 1 on three tokens and −1 on one: (3 − 1)/6 over all cells, not (3 − 1)/4.
    mean = 1 / 3
    std = math.sqrt((3 * (1 - mean) ** 2 + (-1 - mean) ** 2) / 4)
    assert found.advantages.tolist() == pytest.approx([(1 - mean) / std, (-1 - mean) / std])
