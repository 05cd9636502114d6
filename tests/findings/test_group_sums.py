"""Advantages of a group that do not sum to 0 where the configured estimator says they must."""

from typing import Any

import numpy as np
import pytest

from app.findings import group_sum_not_zero
from app.findings.view import View
from tests.findings.memory import codes_of, view_of

CODE = "group_sum_not_zero"
GRPO = {"framework": "verl", "adv_estimator": "grpo"}


def rows(groups: int = 6, shift: float = 0.0, seed: int = 0, **given: Any) -> list[dict[str, Any]]:
    """GRPO in single precision, every advantage of the first half of the groups moved by `shift`."""
    source, made = np.random.default_rng(seed), list[dict[str, Any]]()
    for number in range(groups):
        reward = source.normal(size=6).astype(np.float32)
        advantage = (reward - reward.mean()) / (reward.std(ddof=1) + np.float32(1e-6))
        if number < groups // 2:
            advantage = advantage + np.float32(shift)
        made += [
            {"group_id": f"g{number}", "response": f"{number} {k}", "reward": float(reward[k]),
             "advantage": float(advantage[k]), **given}
            for k in range(6)
        ]  # fmt: skip
    return made


def test_groups_that_are_off_are_named_with_the_worst() -> None:
    said = codes_of(rows(shift=0.5), GRPO)[CODE]
    assert (said["severity"], said["groups_total"]) == ("warning", 3)
    assert said["evidence"]["groups_off"] == 3 and said["evidence"]["compared_groups"] == 6
    assert said["evidence"]["worst"]["sum"] == pytest.approx(3.0, abs=1e-4)
    assert "do not sum to 0" in said["title"] and "grpo/verl" in said["title"]


@pytest.mark.parametrize("seed", range(20))
def test_rounding_is_not_off(seed: int) -> None:
    assert CODE not in codes_of(rows(seed=seed), GRPO)


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ({}, {}),  # nobody says how
        ({"framework": "nemo-rl", "adv_estimator": "grpo"}, {}),  # leaves itself out
        ({"framework": "openrlhf", "advantage_estimator": "rloo"}, {}),  # clips
        ({"framework": "trl", "adv_estimator": "rloo", "normalize_advantages": True}, {}),  # whitens
        ({**GRPO, "adv_estimator": "gae"}, {}),
        (GRPO, {"truncated": True}),  # may have been masked afterwards
    ],
)
def test_where_the_sum_may_be_anything_nothing_is_said(header: dict[str, Any], given: dict[str, Any]) -> None:
    assert CODE not in codes_of(rows(shift=0.5, **given), header)


def test_a_group_that_lacks_an_advantage_is_not_looked_at() -> None:
    made = rows()
    for row in made[::6]:
        del row["advantage"]
    assert CODE not in codes_of(made, GRPO)


def test_pieces_of_one_rollout_count_once() -> None:
    made = rows()
    made = [{**row, "rollout_id": str(i)} for i, row in enumerate(made)]
    made += [{**row, "response": row["response"] + " more"} for row in made[::6]]
    assert CODE not in codes_of(made, GRPO)


def test_what_was_found_to_be_as_configured_is_left_alone() -> None:
    view: View = view_of(rows(shift=0.5), GRPO)
    assert group_sum_not_zero.check(view) is not None
    view.facts["recorded_advantages_disagree"] = {
        "verdict": "match",
        "candidates": [{"matched": True, "mistake": None}],
    }
    assert group_sum_not_zero.check(view) is None
