"""Each finding fires where it should, with the numbers that prove it."""

import importlib
import json
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from app import findings
from app.findings import FINDINGS
from app.findings.finding import Finding
from storage.database import read
from tests.builders import make_batch
from tests.findings.build import case, from_case, run_findings

Rewards = Sequence[Sequence[float | None]]
MIXED: Rewards = [[1.0, 0.0, 1.0, 0.0]] * 6


def test_every_finding_of_the_folder_is_registered() -> None:
    modules = [
        importlib.import_module(f"app.findings.{m.name}") for m in pkgutil.iter_modules(findings.__path__)
    ]
    found = [m.FINDING for m in modules if isinstance(getattr(m, "FINDING", None), Finding)]
    assert {f.code for f in found} == set(FINDINGS)
    assert all(code == finding.code and finding.title for code, finding in FINDINGS.items())


@pytest.mark.parametrize(
    ("constant", "severity"), [(1, "info"), (2, "warning"), (4, "warning"), (5, "critical")]
)
def test_zero_variance_groups_by_share(sqlite_engine: Engine, constant: int, severity: str) -> None:
    rewards: Rewards = [[1.0] * 4] * constant + [[1.0, 0.0, 1.0, 0.0]] * (8 - constant)
    said = run_findings(sqlite_engine, rewards)["zero_variance_groups"]
    assert said["severity"] == severity
    assert said["evidence"]["share"] == constant / 8
    assert said["evidence"]["at_highest_reward"] == constant and said["evidence"]["at_lowest_reward"] == 0
    assert said["groups"] == [f"g{i}" for i in range(constant)]
    assert said["rollouts"] == list(range(4 * constant)) and said["rollouts_total"] == 4 * constant


def test_reward_spread_but_no_signal(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("33"))
    assert set(said) == {"loss_zero_despite_reward_spread", "zero_variance_groups"}
    evidence = said["zero_variance_groups"]["evidence"]
    assert said["zero_variance_groups"]["severity"] == "critical"
    assert evidence["share"] == 1.0 and evidence["mean_std_within_groups_ddof1"] == 0.0
    assert evidence["std_over_rollouts_ddof1"] == pytest.approx(4.7328638265, rel=1e-9)


def test_groups_that_fill_up_the_batch_are_set_aside(sqlite_engine: Engine) -> None:
    masks = [[1, 1], [1, 1], [0, 0], [0, 0]]
    said = run_findings(sqlite_engine, [[1.0, 0.0], [0.0, 0.0]], arrays={"response_mask": masks})
    assert said == {}


def test_equal_but_for_float32_rounding_is_constant(sqlite_engine: Engine) -> None:
    third = float(np.float32(1) / np.float32(3))
    rewards: Rewards = [[third, third * (1 + 1e-7)], *MIXED]
    assert set(run_findings(sqlite_engine, rewards)) >= {"zero_variance_groups"}


def test_tiny_spread_scaled_to_full_size(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("23"))
    assert set(said) == {"near_zero_variance_groups", "epsilon_dominated"}
    assert said["near_zero_variance_groups"]["groups"] == said["epsilon_dominated"]["groups"] == ["A"]
    assert said["near_zero_variance_groups"]["evidence"]["range"]["A"] == pytest.approx(4e-5, rel=1e-6)


def test_format_noise_among_real_contrasts(sqlite_engine: Engine) -> None:
    real: Rewards = [[1.1, 0.1, 1.1, 0.1, 1.1, 0.0, 0.1, 1.1]] * 11
    noise: Rewards = [[0.1, 0.1, 0.1, 0.0, 0.1, 0.1, 0.1, 0.1]] * 5
    said = run_findings(sqlite_engine, [*real, *noise])
    assert said["near_zero_variance_groups"]["groups"] == [f"g{i}" for i in range(11, 16)]
    assert said["near_zero_variance_groups"]["severity"] == "warning"
    assert said["near_zero_variance_groups"]["evidence"]["largest_possible_advantage"] == pytest.approx(
        7 / 8**0.5
    )


def test_shaping_noise_in_an_all_fail_group(sqlite_engine: Engine) -> None:
    assert from_case(sqlite_engine, case("27"))["near_zero_variance_groups"]["groups"] == ["f"]


def test_one_right_answer_of_many_is_no_noise(sqlite_engine: Engine) -> None:
    hard: Sequence[float | None] = [1.0] + [0.0] * 127
    half: Rewards = [[1.0, 0.0] * 64] * 5
    assert run_findings(sqlite_engine, [hard, *half]) == {}


def test_singleton_beside_a_group(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("12"))
    assert set(said) == {"singleton_groups", "unequal_group_sizes"}
    assert said["singleton_groups"]["evidence"]["groups_with_one_rollout"] == 1
    assert said["singleton_groups"]["groups"] == ["a"] and said["singleton_groups"]["severity"] == "warning"


def test_only_singletons_means_a_wrong_key(sqlite_engine: Engine) -> None:
    said = run_findings(sqlite_engine, [[1.0], [0.0], [0.5], [1.0]])
    assert set(said) == {"singleton_groups"} and said["singleton_groups"]["severity"] == "critical"
    assert "key" in said["singleton_groups"]["title"]


@pytest.mark.parametrize(
    "given",
    [
        {"arrays": {"values": [[0.1], [0.2], [0.3], [0.4]]}},
        {"header": {"adv_estimator": "reinforce_plus_plus"}},
        {"fields": {"group_id": "absent"}},
        {"fields": {"group_id": "derived:alone"}},
    ],
)
def test_singletons_are_fine_where_no_group_is_needed(sqlite_engine: Engine, given: dict[str, Any]) -> None:
    assert run_findings(sqlite_engine, [[1.0], [0.0], [0.5], [1.0]], **given) == {}


def test_rows_without_group_among_groups_are_singletons(sqlite_engine: Engine) -> None:
    said = run_findings(sqlite_engine, [*MIXED, [1.0]], fields={"group_id": "derived:alone"})
    assert said["singleton_groups"]["evidence"]["groups_with_one_rollout"] == 1


def test_unequal_group_sizes(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("15"))["unequal_group_sizes"]
    assert said["groups"] == ["g1"] and said["evidence"]["usual_size"] == 4
    assert said["evidence"]["groups_by_size"] == {"2": 1, "4": 1}


def test_the_batch_as_the_baseline_of_like_prompts_is_only_said(sqlite_engine: Engine) -> None:
    """As an estimator without groups has it: two of three rollouts of each group keep their sign."""
    rewards: Rewards = [[0.8, 0.0, 0.42], [1.0, 0.2, 0.58]] * 3
    flat = np.array(rewards, dtype=float).ravel()
    columns = {"advantage": (2 * (flat - flat.mean())).tolist()}
    said = run_findings(sqlite_engine, rewards, columns=columns)["sign_flips"]
    assert said["severity"] == "info" and said["evidence"]["flipped"] >= 2


def test_recorded_advantages_against_the_group(sqlite_engine: Engine) -> None:
    rewards: Rewards = [[1.0, 0.8, 0.9, 0.7], [0.0, 0.2, 0.1, 0.3]]
    flat = np.array(rewards, dtype=float).ravel()
    said = run_findings(sqlite_engine, rewards, columns={"advantage": (flat - flat.mean()).tolist()})[
        "sign_flips"
    ]
    assert said["severity"] == "critical" and said["evidence"]["recorded"] is True
    assert said["rollouts"] == [1, 3, 5, 7] and said["evidence"]["flipped"] == 4
    assert (said["evidence"]["winners_suppressed"], said["evidence"]["losers_reinforced"]) == (2, 2)


def test_batch_whitening_would_flip_signs(sqlite_engine: Engine) -> None:
    easy: Sequence[float | None] = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75, 0.8, 0.9]
    hard: Sequence[float | None] = [0.1, 0.2, 0.15, 0.05, 0.3, 0.25, 0.2, 0.1]
    said = run_findings(sqlite_engine, [easy, hard] * 4)["sign_flips"]
    assert said["severity"] == "info" and said["evidence"]["recorded"] is False
    # Means 0.83125 and 0.16875, batch mean 0.5: every easy answer below its mean flips, every hard one above.
    assert said["evidence"]["batch_mean"] == pytest.approx(0.5)
    assert said["evidence"]["flipped"] == 4 * (4 + 4)
    assert (
        said["evidence"]["groups_all_below_batch_mean"]
        == said["evidence"]["groups_all_above_batch_mean"]
        == 4
    )


def test_task_all_negative_under_the_batch(sqlite_engine: Engine) -> None:
    proof: Sequence[float | None] = [1.0, 1.0, 0.0, 0.0]
    recall: Sequence[float | None] = [0.25, 0.25, 0.25, 0.0]
    said = run_findings(sqlite_engine, [proof, recall] * 3, data_sources=["proof", "recall"] * 3)[
        "task_offset"
    ]
    # Batch mean (0.5 + 0.1875)/2 = 0.34375: all of recall is below it, 12 rollouts.
    assert said["evidence"]["batch_mean"] == pytest.approx(0.34375)
    assert said["evidence"]["data_sources"]["recall"]["rollouts"] == 12
    assert said["evidence"]["data_sources"]["recall"]["sign"] == "negative"
    assert set(said["evidence"]["data_sources"]) == {"recall"} and said["rollouts_total"] == 12


def test_small_task_far_from_the_rest(sqlite_engine: Engine) -> None:
    rewards: Rewards = [[0.8, 0.9, 0.85, 0.95], [0.1, 0.2, 0.15, 0.05]]
    said = run_findings(sqlite_engine, rewards, data_sources=["easy", "hard"])
    assert set(said["task_offset"]["evidence"]["data_sources"]) == {"easy", "hard"}


def test_worst_first_and_caps(sqlite_engine: Engine) -> None:
    rewards: Rewards = [[1.0, 1.0]] * 150 + [[1.0]] + [[1.0, 0.0]] * 10
    batch = make_batch(sqlite_engine, rewards, fields={"group_id": "recorded"})
    with read(sqlite_engine) as session:
        said = findings.run(session, batch.id)
    assert said[0]["code"] == "zero_variance_groups"
    order = ["critical", "warning", "info"]
    assert [order.index(each["severity"]) for each in said] == sorted(
        order.index(e["severity"]) for e in said
    )
    assert len(said[0]["groups"]) == 100 and said[0]["groups_total"] == 150
    assert len(said[0]["rollouts"]) == 200 and said[0]["rollouts_total"] == 300
    json.dumps(said, allow_nan=False)


def test_empty_batch_and_one_rollout_say_nothing(sqlite_engine: Engine) -> None:
    assert run_findings(sqlite_engine, []) == {}
    assert run_findings(sqlite_engine, [[1.0]]) == {}


def test_statistics_and_findings_on_both_databases(engine: Engine) -> None:
    batch = make_batch(
        engine, [[1.0, 1.0], [0.0, 1.0]], lengths=[3, 4, 5, 6], columns={"response": [" \n", "a", "b", "c"]}
    )
    with read(engine) as session:
        statistics, said = findings.assess(session, batch.id)
    assert {each["code"] for each in said} == {"zero_variance_groups", "empty_response"}
    assert statistics["rollouts"] == 4 and statistics["zero_signal_share"] == 0.5
