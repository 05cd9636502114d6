"""Remedies about groups, scopes and sizes are tried on the batch, too."""

from typing import Any

import numpy as np
import pytest

from app.findings.view import Prompts
from tests.findings.test_numbers import rows_of
from tests.findings.test_remedies import remedy, z

EASY = [1.0, 1.0, 1.0, 0.0]


# --- groups ----------------------------------------------------------------------------------------------


def test_a_filter_says_what_it_leaves() -> None:
    said, tried = remedy(rows_of([[1.0] * 4] * 5 + [EASY] * 3), "zero_variance_groups")
    mean = np.abs(z(EASY)).sum() * 3
    assert tried["filter"]["times_mean_abs_advantage"] == pytest.approx((mean / 12) / (mean / 32))
    assert "3 of 8 groups stay, and the mean |advantage| of a rollout is 2.67 times as large" in said


def test_no_filter_where_it_leaves_nothing() -> None:
    rows = rows_of([[1.0] * 4] * 3 + [[0.0] * 4] * 3)
    said, tried = remedy(rows, "zero_variance_groups")
    assert not tried["filter"]["helps"] and "Filter" not in said and "middle difficulty" in said


def prompts(numbers: list[int]) -> Prompts:
    no = np.zeros(len(numbers), dtype=bool)
    return Prompts(np.array(numbers, dtype=np.int64), no, no, no)


def test_grouping_by_prompt_is_given_where_it_makes_groups() -> None:
    rows = rows_of([[float(i % 2)] for i in range(8)])
    said, tried = remedy(rows, "singleton_groups", prompts=prompts([0, 0, 0, 0, 1, 1, 2, 3]))
    assert tried["group_by_prompt"] == {"helps": True, "rollouts": 6, "groups": 2, "groups_with_signal": 2}
    assert (
        "6 of 8 such rollouts would have a sibling, in 2 groups, 2 of them with rewards that differ" in said
    )


def test_grouping_by_prompt_is_not_given_where_each_row_has_its_own() -> None:
    rows = rows_of([[float(i % 2)] for i in range(8)])
    said, tried = remedy(rows, "singleton_groups", prompts=prompts(list(range(8))))
    assert tried["group_by_prompt"]["rollouts"] == 0 and "Group by" not in said
    assert said.startswith("Let the sampler ask for more than one response")
    said, tried = remedy(rows, "singleton_groups")
    assert tried == {} and "Check which column groups the rows" in said, "no prompts: nothing can be tried"


# --- responses that were cut off -------------------------------------------------------------------------


def test_leaving_out_what_was_cut_off_says_what_it_leaves() -> None:
    cut = [[False, False, True, True], [False, False, True, True]]
    rows = rows_of(
        [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]], truncated=[each for row in cut for each in row]
    )
    said, tried = remedy(rows, "truncated_rollouts")
    assert tried["leave_out"] == {
        "helps": True, "groups_with_signal_before": 2, "groups_with_signal": 1, "shift_of_a_mean": 0.5,
    }  # fmt: skip
    assert "1 of 2 groups with a signal would keep one, and a group's mean would move by up to 0.5" in said
    assert "critic" not in said, "there are no values"


def test_they_are_not_left_out_where_that_leaves_no_signal() -> None:
    cut = [reward == 0.0 for reward in EASY * 4]
    said, tried = remedy(rows_of([EASY] * 4, truncated=cut), "truncated_rollouts")
    assert not tried["leave_out"]["helps"] and said == "Raise the limit, or shape the reward towards it."


# --- scopes ----------------------------------------------------------------------------------------------


def test_centring_first_is_given_with_how_many_still_flip() -> None:
    said, tried = remedy(rows_of([[10.0, 9.0, 9.0, 10.0], [0.0, 1.0, 1.0, 0.0]] * 4), "sign_flips")
    assert tried == {"centre_on_group": {"helps": True, "flipped": 0}}
    assert "0 of 32 rollouts would change sign instead of" in said and "per task" not in said


def test_whitening_per_task_is_given_only_where_the_tasks_are_what_differs() -> None:
    groups = [[10.0, 9.0, 9.0, 10.0], [0.0, 1.0, 1.0, 0.0]] * 4
    task = [f"task {i // 4 % 2}" for i in range(32)]
    said, tried = remedy(rows_of(groups, data_source=task), "sign_flips")
    assert tried["whiten_per_task"] == {"helps": True, "flipped": 0} and "Whiten per task" in said
    mixed = [f"task {i // 8 % 2}" for i in range(32)]
    said, tried = remedy(rows_of(groups, data_source=mixed), "sign_flips")
    assert not tried["whiten_per_task"]["helps"] and "Whiten per task" not in said


def test_one_scale_is_not_given_where_the_means_still_differ() -> None:
    groups = [[1.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.0]] * 3
    rows = rows_of(groups, data_source=["proof" if i % 8 < 4 else "recall" for i in range(24)])
    said, tried = remedy(rows, "task_offset")
    assert tried["centre_on_group"] == {"helps": True, "positive_share": 0.75}
    assert "Centre within each prompt group first: 75 % of its 12 rollouts would be positive" in said
    far = rows_of(
        [[100.0, 101.0, 100.0, 101.0], [0.25, 0.25, 0.25, 0.0]] * 3,
        data_source=["proof" if i % 8 < 4 else "recall" for i in range(24)],
    )
    said, tried = remedy(far, "task_offset")
    assert tried["one_scale"]["positive_share"] in (0.0, 1.0) and "their std" not in said


def test_all_ranks_are_given_where_they_have_a_spread() -> None:
    def rows(values: list[float]) -> Any:
        made = rows_of([[1.0, 0.0, 1.0]], rank=[0, 0, 1], response_mask=[[1, 1]] * 3)
        return [row | {"advantages": [value] * 2} for row, value in zip(made, values, strict=True)]

    said, tried = remedy(rows([1.0, -1.0, 0.5]), "too_few_tokens_to_whiten")
    assert tried["all_ranks"] == {"helps": True, "tokens": 6, "rollouts": 3}
    assert "all ranks together (6 trainable tokens of 3 rollouts)" in said
    small = [row | {"response_mask": [1, 0]} for row in rows([0.5, 0.5, 0.5])]
    said, tried = remedy(small, "too_few_tokens_to_whiten")
    assert not tried["all_ranks"]["helps"] and "ranks" not in said, "all have the same advantage"


# --- sizes -----------------------------------------------------------------------------------------------


def test_clipping_says_what_share_is_left() -> None:
    advantages = [[0.866, 0.866, -0.866, -0.866]] * 3 + [[1e6, 0.866, -0.866, -0.866]]
    rows = rows_of([[1.0, 1.0, 0.0, 0.0]] * 4, advantages)
    said, tried = remedy(rows, "outlier_advantages")
    expected = 1.5 / (1.5 + 15 * 0.866)
    assert tried["clip"] == {"helps": True, "bound": 1.5, "share": pytest.approx(expected)}
    assert (
        "clip advantages to ±1.5: these rollouts would carry 10 % of the total |advantage| (now 100 %)"
        in said
    )


def test_clipping_is_not_given_where_what_is_left_is_all_there_is() -> None:
    advantages = [[1e6, -1e6, 1e6, -1e6], [0.0001, -0.0001] * 2, [0.0001, -0.0001] * 2]
    said, tried = remedy(rows_of([[1.0, 0.0, 1.0, 0.0]] * 3, advantages), "outlier_advantages")
    assert not tried["clip"]["helps"] and "clip advantages" not in said
