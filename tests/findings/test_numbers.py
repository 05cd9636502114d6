"""Findings about log-probabilities, recorded advantages and precision, with the numbers that prove them."""

from typing import Any

import numpy as np
import pytest

from app.findings.rounding import one_pass_variance
from app.findings.view import Said
from tests.findings.cases import canonical, load
from tests.findings.memory import codes_of

Rows = list[dict[str, Any]]


def case(number: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The findings of a diagnosis case, and what it expects."""
    loaded = load(number)
    return codes_of([canonical(row) for row in loaded["input"]["rows"]]), loaded["expect"]


def rows_of(rewards: list[list[float]], advantages: list[list[float]] | None = None, **columns: Any) -> Rows:
    """One row per reward; `columns`: further fields, one value per row in the same order."""
    rows = [
        {"group_id": f"g{g}", "response": f"r{g}-{i}", "reward": reward}
        for g, group in enumerate(rewards)
        for i, reward in enumerate(group)
    ]
    if advantages is not None:
        for row, value in zip(rows, [value for group in advantages for value in group], strict=True):
            row["advantage"] = value
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def log_probs(old: Any, sampler: Any, mask: Any = None) -> Rows:
    """One rollout per row of the two tables."""
    count = len(old)
    columns: dict[str, Any] = {"old_log_probs": old, "rollout_log_probs": sampler}
    columns["response_mask"] = [np.ones(len(row)) for row in old] if mask is None else mask
    return rows_of([[float(i % 2) for i in range(count)]], **columns)


def drawn(rollouts: int = 8, tokens: int = 50, seed: int = 0) -> Any:
    return -np.random.default_rng(seed).exponential(0.7, (rollouts, tokens)) - 0.01


# --- log-probabilities -----------------------------------------------------------------------------------


def test_probabilities_instead_of_their_logarithm() -> None:
    values = np.exp(drawn())
    said = codes_of(log_probs(values, values))["positive_log_probs"]
    assert said["severity"] == "critical" and "probabilities, not their logarithm" in said["title"]
    assert said["evidence"]["fields"]["old_log_probs"]["share"] == 1.0 and said["rollouts_total"] == 8


def test_negative_log_likelihoods() -> None:
    said = codes_of(log_probs(-drawn(), drawn()))["positive_log_probs"]
    assert "sign is swapped" in said["title"] and set(said["evidence"]["fields"]) == {"old_log_probs"}


@pytest.mark.parametrize(("value", "severity"), [(0.3, "warning"), (0.02, "info"), (5e-5, None)])
def test_single_values_above_zero(value: float, severity: str | None) -> None:
    old = drawn()
    old[3, 7] = value
    said = codes_of(log_probs(old, np.minimum(old, 0.0))).get("positive_log_probs")
    assert (said and said["severity"]) == severity
    assert said is None or said["rollouts"] == [3]


def test_what_the_mask_covers_does_not_count() -> None:
    old, mask = drawn(), np.ones((8, 50))
    old[:, 40:], mask[:, 40:] = 1.0, 0
    assert "positive_log_probs" not in codes_of(log_probs(old, np.where(mask > 0, old, 0.0), mask))


def test_constant_offset() -> None:
    said = codes_of(log_probs(drawn() + np.log(0.8), drawn()))["log_prob_offset"]
    assert said["severity"] == "critical" and said["evidence"]["kind"] == "constant"
    assert said["evidence"]["offset"] == pytest.approx(np.log(0.8))
    assert said["evidence"]["factor"] == pytest.approx(0.8) and said["evidence"]["tokens"] == 400


def test_constant_offset_of_a_few_tokens() -> None:
    said = codes_of(log_probs([[-1.0, -2.0, -0.5]], [[-0.95, -1.95, -0.45]]))["log_prob_offset"]
    assert said["severity"] == "warning" and said["evidence"]["offset"] == pytest.approx(-0.05)


def test_offset_of_its_own_in_each_rollout() -> None:
    offsets = np.linspace(-0.5, 0.5, 8)[:, None]
    said = codes_of(log_probs(drawn() + offsets - 1.0, drawn() - 1.0))["log_prob_offset"]
    assert said["evidence"]["kind"] == "constant in each rollout"


def test_shifted_by_one_token() -> None:
    whole = drawn(tokens=51)
    said = codes_of(log_probs(whole[:, :-1], whole[:, 1:]))["log_prob_offset"]
    assert said["evidence"]["kind"] == "shifted" and said["evidence"]["shift"] == -1
    assert said["evidence"]["mean_abs_difference_shifted"] == pytest.approx(0.0, abs=1e-12)
    later = codes_of(log_probs(whole[:, 1:], whole[:, :-1]))["log_prob_offset"]
    assert later["evidence"]["shift"] == 1 and "too late" in later["title"]


def test_likelier_than_under_the_sampler() -> None:
    noise = np.random.default_rng(1).normal(0.05, 0.3, (8, 200))
    sampler = drawn(tokens=200) - 2.0
    said = codes_of(log_probs(sampler + noise, sampler))["log_prob_offset"]
    assert said["evidence"]["kind"] == "reversed" and said["severity"] == "warning"


def test_an_update_of_the_policy_is_no_offset() -> None:
    noise = np.random.default_rng(2).normal(-0.02, 0.2, (8, 200))
    sampler = drawn(tokens=200) - 2.0
    assert "log_prob_offset" not in codes_of(log_probs(sampler + noise, sampler))


def test_log_probs_of_another_length() -> None:
    rows = rows_of([[1.0, 0.0, 1.0, 0.0]])
    said = [
        Said("length_mismatch", "old_log_probs", i + 1, i, "warning", f"row {i + 1}: old_log_probs has 4 "
             "values, response_ids has 5; left out of this row, never padded, cut or shifted")
        for i in (1, 2)
    ]  # fmt: skip
    found = codes_of(rows, problems=said)["log_prob_length_mismatch"]
    assert found["severity"] == "critical" and found["rollouts"] == [1, 2]
    assert found["evidence"]["fields"] == {"old_log_probs": {"rollouts": 2, "difference": {"−1": 2}}}
    assert "1 fewer than the response has tokens in each" in found["title"]


# --- recorded advantages ---------------------------------------------------------------------------------


def test_divided_by_epsilon() -> None:
    said, expect = case("15")
    assert said["epsilon_dominated"]["severity"] == "critical"
    assert said["epsilon_dominated"]["evidence"]["epsilon"] == 1e-6
    assert said["epsilon_dominated"]["evidence"]["divided"] == "reward"
    assert said["epsilon_dominated"]["rollouts"] == [4, 5]
    bound = said["outlier_advantages"]["evidence"]["bound"]
    assert bound["n"] == expect["bound"]["n"]
    assert bound["max_abs_zscore_ddof1"] == pytest.approx(expect["bound"]["max_abs_zscore_ddof1"])
    assert said["outlier_advantages"]["evidence"]["rollouts"] == 2


def test_difference_to_the_mean_divided_by_epsilon() -> None:
    rewards = [[0.0, 1.0, 0.0, 1.0]] * 3 + [[0.5, 0.7]]
    given = [[-0.866, 0.866, -0.866, 0.866]] * 3 + [[-1e3, 1e3]]
    said = codes_of(rows_of(rewards, given))["epsilon_dominated"]
    assert said["evidence"]["divided"] == "reward − group mean" and said["evidence"]["epsilon"] == 1e-4


def test_leave_one_out_std_that_explodes() -> None:
    rewards = [[1.0, 0.0] * 4] * 7 + [[0.1] * 7 + [0.9]]
    given = [[0.935, -0.935] * 4] * 7 + [[-0.36] * 7 + [3692.0]]
    said = codes_of(rows_of(rewards, given))["outlier_advantages"]
    assert said["rollouts"] == [63] and said["severity"] == "critical"
    assert said["evidence"]["share_of_abs_advantage"] > 0.9


def test_one_right_answer_of_many_is_no_outlier() -> None:
    rewards = np.array([1.0] + [0.0] * 127)
    given = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    assert "outlier_advantages" not in codes_of(rows_of([rewards.tolist()], [given.tolist()]))


def test_rounding_made_into_a_signal() -> None:
    # The float32 mean of twelve times 0.1 is a unit in the last place off: over 1e-9, that is of order 1.
    low = np.full(12, 0.1, dtype=np.float32)
    mean = np.float32(np.cumsum(low, dtype=np.float32)[-1]) / np.float32(12)
    left = float(low[0] - mean)
    assert left != 0
    rewards = [[float(low[0])] * 12, [1.0, 0.0] * 6]
    given = [[left / (abs(left) * (12 / 11) ** 0.5 + 1e-9)] * 12, [0.9574, -0.9574] * 6]
    said = codes_of(rows_of(rewards, given))["epsilon_dominated"]
    assert said["evidence"]["kind"] == "rounding" and said["severity"] == "critical"
    assert said["groups"] == ["g0"]


def test_equal_rewards_with_different_advantages_are_not_rounding() -> None:
    rows = rows_of([[0.1] * 4, [1.0, 0.0] * 2], [[0.9, -0.9, 0.9, -0.9], [0.8, -0.8] * 2])
    assert "epsilon_dominated" not in codes_of(rows)


def test_tiny_spread() -> None:
    said, expect = case("23")
    evidence = said["epsilon_dominated"]["evidence"]
    assert evidence["advantages"]["std + 1e-6"] == pytest.approx(expect["advantages"][1], rel=1e-6)
    floored = expect["with_variance_floor_1e-6"]["A"][1]
    assert evidence["advantages"]["√max(variance, 1e-6) + 1e-6"] == pytest.approx(floored, rel=1e-8)
    assert evidence["ratio"] == pytest.approx(expect["ratio"], rel=1e-8)
    assert said["epsilon_dominated"]["severity"] == "info"
    assert said["near_zero_variance_groups"]["groups"] == ["A"]


def test_a_small_reward_scale_is_no_tiny_spread() -> None:
    random = np.random.default_rng(3)
    rows = rows_of((random.random((6, 8)) * 1e-3).tolist())
    assert "epsilon_dominated" not in codes_of(rows)


# --- precision -------------------------------------------------------------------------------------------


def test_advantages_computed_in_sixteen_bits() -> None:
    said, expect = case("24")
    assert set(said) == {"precision_loss"}
    evidence = said["precision_loss"]["evidence"]
    assert said["precision_loss"]["severity"] == "critical" and evidence["dtype"] == "bfloat16"
    assert evidence["sum_recorded"] == 2.453125 and evidence["low_precision_mean"] == expect["bf16_mean"]
    assert evidence["float64"] == pytest.approx(expect["float64"], rel=1e-5)
    assert evidence["low_precision"] == expect["all_steps_rounded_to_bf16"]


def test_advantages_merely_stored_in_sixteen_bits() -> None:
    rewards = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    given = [[1.5, -0.5, -0.5, -0.5], [0.8671875, 0.8671875, -0.8671875, -0.8671875]]
    assert codes_of(rows_of(rewards, given)) == {}


def test_rewards_on_the_grid_of_sixteen_bits() -> None:
    head = [
        [0.25] * 5 + [0.251953125],
        [0.75, 0.75, 0.75390625, 0.75, 0.75, 0.75],
        [0.125, 0.5, 0.25, 0.75, 1.0, 0.0],
    ]
    said = codes_of(rows_of(head))["precision_loss"]
    assert said["evidence"]["kind"] == "rewards on the grid" and set(said["groups"]) == {"g0", "g1"}


def test_graded_scores_lie_on_the_grid_by_nature() -> None:
    assert "precision_loss" not in codes_of(rows_of([[100.0] * 7 + [101.0], [0.25, 0.5, 0.75, 1.0] * 2]))


def test_rewards_past_float32_have_no_one_pass_variance() -> None:
    """Damaged files hold such numbers: infinite, without a warning in the worker's log."""
    assert not np.isfinite(one_pass_variance(np.array([1e300, -1e300, 1e39])))


def test_one_pass_variance() -> None:
    rewards = 1500.0 + np.array([0.06, 0.54, 1.02, 1.38])
    low = rewards.astype(np.float32)
    variance = float(np.square(low).mean(dtype=np.float32) - low.mean(dtype=np.float32) ** 2)
    assert variance > 0 and abs(variance / rewards.var() - 1) > 0.2
    given = (rewards - rewards.mean()) / variance**0.5
    said = codes_of(rows_of([rewards.tolist()], [given.tolist()]))["precision_loss"]
    assert said["evidence"]["kind"] == "one-pass variance"
    assert said["evidence"]["one_pass_variance_float32"] == pytest.approx(variance)


def test_critic_values_in_sixteen_bits() -> None:
    random = np.random.default_rng(4)
    smooth = 30.0 + np.cumsum(random.normal(0.0, 0.02, (6, 400)), axis=1) + np.arange(6)[:, None] * 15
    coarse = np.asarray((smooth.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32), np.float64)
    rows = rows_of([[1.0, 0.0] * 3], values=coarse, response_mask=np.ones_like(coarse))
    said = codes_of(rows)["precision_loss"]
    assert said["evidence"]["kind"] == "values on the grid" and said["evidence"]["step"] >= 0.125
    fine = rows_of([[1.0, 0.0] * 3], values=smooth, response_mask=np.ones_like(smooth))
    assert "precision_loss" not in codes_of(fine)
