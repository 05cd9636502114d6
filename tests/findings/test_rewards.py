"""Findings about rewards: components, shaping, length, signal between prompts only, and what is missing."""

from typing import Any

import numpy as np
import pytest

from app.findings.shards import in_file_names, series
from tests.findings.memory import codes_of
from tests.findings.test_numbers import case, rows_of


def with_components(groups: list[list[tuple[float, float]]], weights: tuple[float, float], names: Any) -> Any:
    """Rows whose reward is the weighted sum of two components."""
    flat = [pair for group in groups for pair in group]
    rewards = [[weights[0] * a + weights[1] * b for a, b in group] for group in groups]
    return rows_of(rewards, reward_components=[dict(zip(names, pair, strict=True)) for pair in flat])


# --- components ------------------------------------------------------------------------------------------


def test_shaping_noise_in_an_all_fail_group() -> None:
    said, expect = case("27")
    found = said["shaping_noise"]
    assert found["groups"] == ["f"] and found["severity"] == "warning"
    assert found["evidence"]["component"] == "accuracy" and found["evidence"]["range"]["f"] == pytest.approx(
        0.03
    )
    shares = expect["share_of_abs_advantage"]
    assert found["evidence"]["share_of_abs_advantage"]["f"] == pytest.approx(shares["f"], rel=1e-4)
    assert found["evidence"]["share_of_all"] == pytest.approx(0.4721170827, rel=1e-4)


def test_a_format_that_counts_like_an_answer_is_meant() -> None:
    groups = [[(0.0, 1.0), (0.0, 0.0)] * 4] + [[(1.0, 1.0), (0.0, 1.0)] * 4] * 6
    assert "shaping_noise" not in codes_of(with_components(groups, (1.0, 0.5), ("accuracy", "format")))


def test_noise_without_a_name_that_says_so() -> None:
    random = np.random.default_rng(0)
    groups = [[(float(i % 2), random.random()) for i in range(8)] for _ in range(6)]
    groups += [[(0.0, random.random()) for _ in range(8)] for _ in range(6)]
    said = codes_of(with_components(groups, (1.0, 0.05), ("first", "second")))["shaping_noise"]
    assert said["evidence"]["component"] == "first" and said["evidence"]["noise_groups"] == 6


@pytest.mark.parametrize("names", [("accuracy", "length_bonus"), ("a", "b")])
def test_a_shaping_reward_that_drowns_the_answer(names: tuple[str, str]) -> None:
    random = np.random.default_rng(1)
    groups = [
        [(float(random.random() < 0.5), float(random.normal(0, 10))) for _ in range(8)] for _ in range(8)
    ]
    said = codes_of(with_components(groups, (1.0, 1.0), names))["reward_component_dominates"]
    assert (said["evidence"]["dominates"], said["evidence"]["dominated"]) == (names[1], names[0])
    assert said["severity"] == "critical" and said["evidence"]["shares"][names[0]] < 0.02
    assert sum(said["evidence"]["shares"].values()) == pytest.approx(1.0)
    assert said["evidence"]["share_of_advantages_against_the_answer"] > 0.25


def test_the_answer_may_dominate() -> None:
    random = np.random.default_rng(2)
    groups = [[(float(i % 2), float(random.random() < 0.8)) for i in range(8)] for _ in range(8)]
    assert "reward_component_dominates" not in codes_of(
        with_components(groups, (1.0, 0.1), ("accuracy", "format"))
    )


def test_a_product_of_components_is_not_judged() -> None:
    random = np.random.default_rng(3)
    pairs = [(float(random.random() < 0.5), float(random.random())) for _ in range(64)]
    rows = rows_of(
        [[a * b for a, b in pairs[i : i + 8]] for i in range(0, 64, 8)],
        reward_components=[{"accuracy": a, "length": b} for a, b in pairs],
    )
    assert not {"reward_component_dominates", "shaping_noise"} & set(codes_of(rows))


def test_components_that_cancel() -> None:
    cancelled = [[(1.0, 0.0), (0.0, 1.0)] * 2] * 2
    mixed = [[(1.0, 1.0), (0.0, 0.0)] * 2] * 4
    said = codes_of(with_components([*cancelled, *mixed], (1.0, 1.0), ("correct", "format")))
    found = said["reward_component_collapse"]
    assert found["groups"] == ["g0", "g1"] and found["severity"] == "warning"
    assert found["evidence"]["cancelled_groups"] == 2 and found["evidence"]["compared_groups"] == 6
    assert found["evidence"]["example"] == {
        "rollout 0": {"correct": 1.0, "format": 0.0},
        "rollout 1": {"correct": 0.0, "format": 1.0},
    }


def test_components_merged_by_their_sum() -> None:
    groups = [[(1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]] * 4
    found = codes_of(with_components(groups, (1.0, 1.0), ("correct", "format")))["reward_component_collapse"]
    assert found["evidence"]["pairs_of_equal_total"] == 4 * 4
    assert found["evidence"]["pairs_of_different_components"] == 4 * 8


def test_components_of_single_rollouts_do_not_collapse() -> None:
    """No rollout has a sibling that its sum could hide it from."""
    groups = [[(1.0, 0.0)], [(0.0, 0.5)], [(1.0, 0.5)]]
    assert set(codes_of(with_components(groups, (1.0, 1.0), ("correct", "format")))) == {"singleton_groups"}


# --- length, spread --------------------------------------------------------------------------------------


def test_token_mean_or_sequence_mean() -> None:
    said, expect = case("31")
    evidence = said["length_bias"]["evidence"]
    assert set(said) == {"length_bias"} and said["length_bias"]["severity"] == "info"
    assert evidence["ratio_of_weights"] == 4.0
    for name in ("token_mean", "seq_mean_token_mean"):
        assert evidence["weight_of_one_token"][name] == pytest.approx(expect["weight_of_one_token"][name])
    sums = expect["sum_of_weight_times_advantage"]
    assert evidence["token_mean_advantage"] == pytest.approx(sums["token_mean"])
    assert evidence["response_mean_advantage"] == pytest.approx(sums["seq_mean_token_mean"], abs=1e-12)


def lengths(winners: float, losers: float, groups: int = 12) -> Any:
    random = np.random.default_rng(5)
    sizes = [int(random.poisson(winners if i % 2 else losers)) + 1 for _ in range(groups) for i in range(8)]
    return rows_of([[0.0, 1.0] * 4] * groups, response_mask=[np.ones(size) for size in sizes])


def test_long_wrong_answers() -> None:
    said = codes_of(lengths(100, 400))["length_bias"]
    assert said["severity"] == "warning" and said["evidence"]["z"] < -4
    assert "shorter" in said["title"] and said["evidence"]["mean_length_of_losers"] == pytest.approx(
        400, rel=0.1
    )


def test_slightly_longer_wrong_answers_are_ordinary() -> None:
    assert "length_bias" not in codes_of(lengths(300, 400))


def test_spread_between_prompts_only() -> None:
    said, expect = case("33")
    found = said["loss_zero_despite_reward_spread"]
    assert found["severity"] == "critical"
    assert found["evidence"]["std_over_rollouts_ddof1"] == pytest.approx(expect["std_over_rows"])
    assert found["evidence"]["mean_std_within_groups_ddof1"] == expect["mean_std_within_groups"] == 0
    split = expect["variance_split"]
    assert found["evidence"]["between_groups_share"] == split["between_groups_share"]
    assert found["evidence"]["within_groups_share"] == split["within_groups_share"]


def test_recorded_zeros_although_rewards_differ() -> None:
    said = codes_of(rows_of([[1.0, 0.0]] * 3, [[0.0, 0.0]] * 3))["loss_zero_despite_reward_spread"]
    assert said["evidence"]["recorded_zeros"] == 6 and said["evidence"]["groups_with_spread"] == 3


def test_equal_rewards_throughout_have_no_spread_to_lose() -> None:
    assert set(codes_of(rows_of([[1.0, 1.0]] * 3))) == {"zero_variance_groups"}


# --- what is missing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "count", "missing"),
    [
        ([0, 1, 3], None, [2]),
        ([0, 1, 2], 4, [3]),
        ([1, 2, 4], 4, [3]),
        ([0, 1, 2, 3], 4, None),
        ([1, 2, 3], None, None),
        ([0, 4, 8, 12], 16, None),
        ([0, 8], None, None),
        ([3], None, None),
    ],
)
def test_series(numbers: list[int], count: int | None, missing: list[int] | None) -> None:
    found = series("rank", numbers, count)
    assert (found and found.missing) == missing


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (["train-00000-of-00003.jsonl", "train-00002-of-00003.jsonl"], [1]),
        (["step_7_rank_0.jsonl", "step_7_rank_1.jsonl", "step_7_rank_3.jsonl"], [2]),
        (["step_7.jsonl"], None),
        (["rank_3.jsonl"], None),
    ],
)
def test_file_names_that_count(files: list[str], missing: list[int] | None) -> None:
    found = in_file_names(files)
    assert (found and found.missing) == missing


def test_a_rank_that_did_not_write() -> None:
    ranks = [rank for rank in (0, 1, 3) for _ in range(4)]
    said = codes_of(rows_of([[1.0, 0.0]] * 6, rank=ranks), {"world_size": 4})["missing_shards"]
    assert said["severity"] == "warning" and said["evidence"]["missing"] == {"ranks": [2]}
    assert said["evidence"]["declared"] == {"world_size": 4}


def test_groups_smaller_than_the_header_says() -> None:
    said = codes_of(rows_of([[1.0, 0.0, 1.0]] * 4), {"group_size": 4})["missing_shards"]
    assert said["evidence"]["missing"] == {"siblings": 4} and said["groups_total"] == 4


def test_fewer_rollouts_than_the_header_says() -> None:
    rows = rows_of([[1.0, 0.0]] * 4)
    assert codes_of(rows, {"num_rollouts": 16})["missing_shards"]["evidence"]["missing"] == {"rollouts": 8}
    assert "missing_shards" not in codes_of(rows, {"num_rollouts": 8})
    assert "missing_shards" not in codes_of(rows, {"num_rollouts": 16}, alone=False)


def test_holes_in_sample_index() -> None:
    numbered = rows_of([[1.0, 0.0, 1.0]] * 4, sample_index=[0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3])
    said = codes_of(numbered)["missing_shards"]
    assert said["evidence"]["missing"] == {"siblings": 4}
    through = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]  # number 8 is missing inside a group
    said = codes_of(rows_of([[1.0, 0.0, 1.0, 0.0]] * 3, sample_index=through))["missing_shards"]
    assert said["evidence"]["missing"] == {"positions": [8]}


def positions(groups: list[list[int]]) -> dict[str, Any]:
    rewards = [[float(i % 2) for i in range(len(group))] for group in groups]
    rows = rows_of(rewards, sample_index=[position for group in groups for position in group])
    said = codes_of(rows).get("missing_shards")
    return {} if said is None else dict(said["evidence"]["missing"])


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_one_rollout_more_makes_no_holes_in_other_groups(start: int, size: int) -> None:
    usual = list(range(start, start + size))
    assert positions([usual] * 5 + [[*usual, start + size]]) == {}
    assert positions([usual] * 5 + [[number + 1 for number in usual]]) == {}
    assert positions([usual] * 5 + [[number - start for number in usual]]) == {}


@pytest.mark.parametrize("seed", range(12))
def test_every_rollout_that_is_taken_out_is_a_hole(seed: int) -> None:
    random = np.random.default_rng([seed, 8])
    start, size, count = int(random.integers(2)), int(random.integers(4, 9)), int(random.integers(5, 10))
    groups = [list(range(start, start + size)) for _ in range(count)]
    taken = 0
    for group in groups[: count // 2 - 1]:
        for _ in range(int(random.integers(1, 3))):
            group.pop(int(random.integers(len(group))))
            taken += 1
    assert positions(groups) == ({"siblings": taken} if taken else {})


def test_filtered_groups_are_no_holes() -> None:
    numbers = [*range(0, 4), *range(8, 12), *range(20, 24)]
    assert "missing_shards" not in codes_of(rows_of([[1.0, 0.0, 1.0, 0.0]] * 3, sample_index=numbers))


# --- severity of sign flips ------------------------------------------------------------------------------


def hard_and_easy(apart: float, header: dict[str, Any] | None = None, recorded: bool = False) -> Any:
    random = np.random.default_rng(7)
    rewards = random.normal(0, 0.1, (12, 8)) + np.linspace(0, apart, 12)[:, None]
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    rows = rows_of(rewards.tolist(), centred.tolist() if recorded else None)
    return codes_of(rows, header).get("sign_flips")


def test_prompts_of_different_difficulty_are_worth_a_note_at_most() -> None:
    for apart in (1.0, 8.0):
        found = hard_and_easy(apart)
        assert found is not None and found["severity"] == "info"
    assert hard_and_easy(0.1) is None


def test_flips_that_the_named_estimator_makes_are_a_warning() -> None:
    assert hard_and_easy(1.0, {"adv_estimator": "reinforce_plus_plus"})["severity"] == "warning"


def test_recorded_advantages_that_follow_the_group_settle_it() -> None:
    assert hard_and_easy(8.0, recorded=True) is None
