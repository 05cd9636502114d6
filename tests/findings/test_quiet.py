"""Checks are silent, or a note, where what they name cannot matter; and still speak where it does."""

from typing import Any

import numpy as np
import pytest

from app.findings.prompts import unstamped
from tests.findings.cases import findings_of_rows
from tests.findings.examples import MIXED, rewarded
from tests.findings.memory import codes_of
from tests.working import Place

TASKS = [[1.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.0]] * 3
SOURCE = {"data_source": lambda i: "proof" if i % 8 < 4 else "recall"}
CUT = {"rank": lambda i: i % 2}


def centred(groups: list[list[float]]) -> list[float]:
    return [reward - float(np.mean(group)) for group in groups for reward in group]


def whitened(groups: list[list[float]]) -> list[float]:
    flat = np.concatenate([np.asarray(group) for group in groups])
    made: list[float] = ((flat - flat.mean()) / flat.std(ddof=1)).tolist()
    return made


def offset(header: dict[str, Any], advantages: list[float] | None = None) -> str | None:
    more = {} if advantages is None else {"advantage": lambda i: advantages[i]}
    said = codes_of(rewarded(TASKS, **SOURCE, **more), header)
    return said["task_offset"]["severity"] if "task_offset" in said else None


def test_tasks_of_different_means_matter_only_to_a_baseline_over_the_batch() -> None:
    assert offset({}) == "info"
    assert offset({"framework": "verl", "adv_estimator": "reinforce_plus_plus"}) == "warning"
    assert offset({"framework": "verl", "adv_estimator": "grpo"}) is None
    assert offset({"framework": "verl", "adv_estimator": "gae"}) is None
    assert offset({}, centred(TASKS)) is None
    assert offset({"adv_estimator": "reinforce_plus_plus", "framework": "verl"}, centred(TASKS)) is None
    assert offset({}, whitened(TASKS)) == "warning"
    assert offset({"framework": "verl", "adv_estimator": "grpo"}, whitened(TASKS)) == "warning"


def test_cut_groups_matter_only_where_the_pieces_are_normalised_alone() -> None:
    def cut(header: dict[str, Any], **more: Any) -> str | None:
        said = codes_of(rewarded(MIXED, **CUT, **more), header)
        return said["split_group"]["severity"] if "split_group" in said else None

    assert cut({}) == "warning" == cut({"framework": "slime", "adv_estimator": "grpo"})
    assert cut({"framework": "verl", "adv_estimator": "grpo"}) is None
    assert cut({"framework": "slime", "adv_estimator": "reinforce_plus_plus"}) is None
    # Recorded numbers prove it, whatever the framework does usually.
    flat = np.array(MIXED).reshape(-1, 2, 2)
    alone = (flat - flat.mean(axis=1, keepdims=True)).ravel().tolist()
    assert cut({"framework": "verl", "adv_estimator": "grpo"}, advantage=lambda i: alone[i]) == "critical"


@pytest.mark.parametrize("split", ["val", "test", "eval_aime", "Validation", "dev-2"])
def test_what_is_not_trained_on_has_no_signal_to_lose(place: Place, split: str) -> None:
    rows = rewarded([[1.0], [0.0]] * 4, advantage=0.0)
    assert findings_of_rows(place, rows, split=split) == {}
    levels = [[float(g % 2)] * 4 for g in range(4)]
    assert findings_of_rows(place, rewarded(levels, advantage=0.0), split=split, run="levels") == {}


@pytest.mark.parametrize("split", [None, "train", "train_eval_mix", "latest", "invalid_prompts"])
def test_other_splits_have(place: Place, split: str | None) -> None:
    rows = rewarded([[1.0], [0.0]] * 4, advantage=0.0)
    more: dict[str, Any] = {} if split is None else {"split": split}
    said = findings_of_rows(place, rows, **more)
    assert said["loss_zero_despite_reward_spread"]["severity"] == "critical"
    assert said["singleton_groups"]["severity"] == "critical"


def test_an_evaluation_that_the_header_tells() -> None:
    rows = rewarded([[1.0], [0.0]] * 4, advantage=0.0)
    header = {"framework": "trl", "num_generations": 8, "num_generations_eval": 1}
    assert codes_of(rows, header) == {}
    assert "singleton_groups" in codes_of(rows, {"framework": "trl", "num_generations": 8})
    assert "singleton_groups" in codes_of(rows, header | {"num_generations": 1})


def test_one_response_for_each_prompt_as_the_header_says() -> None:
    said = codes_of(rewarded([[1.0], [0.0]] * 4), {"group_size": 1})["singleton_groups"]
    assert said["severity"] == "warning" and "as the header says" in said["title"]


def test_groups_of_equal_rewards_teach_where_the_group_is_no_baseline() -> None:
    rows = rewarded([[1.0] * 4, [0.0] * 4] * 4)
    for estimator in ("gae", "reinforce_plus_plus"):
        said = codes_of(rows, {"framework": "verl", "adv_estimator": estimator})
        assert not {"zero_variance_groups", "loss_zero_despite_reward_spread"} & set(said)
    said = codes_of(rows, {"framework": "verl", "adv_estimator": "reinforce_plus_plus_baseline"})
    assert {"zero_variance_groups", "loss_zero_despite_reward_spread"} <= set(said)


STAMPS = (
    "Today is {}. Add 2 and 3.",
    ["2026-11-30", "2026-12-01", "2026-12-02T10:15:30Z", "30 November 2026", "Nov 30, 2026", "1.12.2026"],
)


def test_prompts_that_differ_only_in_a_time_are_a_note(place: Place) -> None:
    text, times = STAMPS
    rows = rewarded(MIXED[:2] * 3, prompt=lambda i: f"{i // 4}: " + text.format(times[i % len(times)]))
    said = findings_of_rows(place, rows, {"run": "stamped"})
    found = said.pop("group_key_suspect")
    assert found["severity"] == "info" and found["evidence"]["groups_with_stamped_prompts"] == 6
    assert found["evidence"]["groups_with_different_prompts"] == 0 and said == {}


def test_prompts_that_differ_in_the_task_are_a_warning(place: Place) -> None:
    rows = rewarded(MIXED[:2] * 3, prompt=lambda i: f"{i // 4}: what is {i % 4} + 3?")
    assert findings_of_rows(place, rows)["group_key_suspect"]["severity"] == "warning"


def test_recorded_advantages_by_the_stamped_text_are_critical(place: Place) -> None:
    flat = np.array(MIXED).reshape(-1, 2, 2)
    pairs = (flat - flat.mean(axis=2, keepdims=True)).ravel().tolist()
    rows = rewarded(
        MIXED, prompt=lambda i: f"{i // 4}: at 10:0{i // 2 % 2} add 2 and 3.", advantage=lambda i: pairs[i]
    )
    assert findings_of_rows(place, rows)["group_key_suspect"]["severity"] == "critical"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("It is 10:15.", "It is 9:05:30 PM.", True),
        ("On 2026-11-30T10:15:30.5+02:00 add.", "On 2025-01-02 23:59 add.", True),
        ("Monday, 30 November 2026", "Tue, Dec 1st, 2026", True),
        ("seed: 17 go", "seed=4 go", True),
        ("job 8f14e45f-ceea-467f-a1d6-91b8bd5e8f3a", "job 00000000-ceea-467f-a1d6-91b8bd5e8f3b", True),
        ("run 1764547200 x", "run 1764547999.25 x", True),
        ("add 2 and 3", "add 2 and 4", False),
        ("May I add 3?", "May I add 4?", False),
        ("3.5 + 2", "3.6 + 2", False),
        ("abc 1234", "abc 1235", False),
    ],
)
def test_what_counts_as_a_stamp(one: str, other: str, same: bool) -> None:
    assert (unstamped(one) == unstamped(other)) is same


@pytest.mark.parametrize(("kind", "more"), [("pieces", {"rank": lambda i: i // 2 % 2}), ("zeros", {})])
def test_recorded_zeros_have_a_reading(kind: str, more: dict[str, Any]) -> None:
    rows = rewarded([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]] * 2, advantage=0.0, **more)
    said = codes_of(rows)["loss_zero_despite_reward_spread"]
    assert said["severity"] == "critical" and said["evidence"]["kind"] == kind
    assert said["evidence"]["recorded_zeros"] == 16 and said["evidence"]["groups_with_spread"] == 4


def test_recorded_zeros_where_nothing_is_trainable() -> None:
    rows = rewarded(MIXED, response_mask=[0] * 4, advantages=[0.0] * 4)
    said = codes_of(rows)["loss_zero_despite_reward_spread"]
    assert said["evidence"]["kind"] == "masked" and "masked" in said["explanation"]


def test_recorded_zeros_without_any_difference_are_right() -> None:
    assert "loss_zero_despite_reward_spread" not in codes_of(rewarded([[0.5], [0.5]] * 4, advantage=0.0))
    assert "loss_zero_despite_reward_spread" not in codes_of(rewarded(MIXED, advantage=lambda i: float(i)))
