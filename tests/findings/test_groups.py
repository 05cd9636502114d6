"""Findings about who was compared with whom, on rows as a file has them."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.findings.ingested import canonical, found


def rows_of(groups: list[str], rewards: list[float], **more: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "step": 1,
            "group_id": group,
            "prompt": f"prompt {group}",
            "response": f"answer {i}",
            "reward": reward,
        }
        | {name: values[i] for name, values in more.items()}
        for i, (group, reward) in enumerate(zip(groups, rewards, strict=True))
    ]


def test_rows_in_turns_grouped_by_stride(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("13"))
    assert {"interleaved_groups", "zero_variance_groups"} <= set(said)
    evidence = said["interleaved_groups"]["evidence"]
    assert said["interleaved_groups"]["severity"] == "critical"
    assert evidence["stride"] == 4 and evidence["recorded"] == "stride"
    assert evidence["sum_of_advantages"] == pytest.approx({"p1": 2.732, "p2": -2.732}, abs=5e-4)
    assert evidence["constant_groups_with_advantages"] == 1


def test_rows_in_turns_without_advantages_are_worth_a_note(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = rows_of(["a", "b", "c"] * 4, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    said = found(sqlite_engine, tmp_path, rows)
    assert set(said) == {"interleaved_groups"} and said["interleaved_groups"]["severity"] == "info"


@pytest.mark.parametrize(
    ("groups", "advantage"),
    [
        # In turns, but compared by id: the sums over a and over b are 0.
        (["a", "b", "a", "b", "a", "b", "a", "b"], [0.5, 0.25, 0.5, 0.25, -0.5, 0.25, -0.5, -0.75]),
        # Written as they were finished.
        (["a", "b", "b", "a", "a", "b", "a", "b"], None),
    ],
)
def test_order_alone_is_no_fault(
    sqlite_engine: Engine, tmp_path: Path, groups: list[str], advantage: list[float] | None
) -> None:
    more = {} if advantage is None else {"advantage": advantage}
    rewards = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert found(sqlite_engine, tmp_path, rows_of(groups, rewards, **more)) == {}


def test_group_split_over_ranks(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("17"))
    assert said["split_group"]["severity"] == "critical"
    evidence = said["split_group"]["evidence"]
    assert (evidence["split_groups"], evidence["groups"], evidence["most_pieces"]) == (2, 2, 2)
    assert evidence["differing_groups_with_zero_advantage"] == 1 and "'p'" in said["split_group"]["title"]


@pytest.mark.parametrize(("advantage", "severity"), [(None, "warning"), ([0.5, 0.5, -0.5, -0.5] * 2, None)])
def test_split_group_without_proof(
    sqlite_engine: Engine, tmp_path: Path, advantage: list[float] | None, severity: str | None
) -> None:
    more: dict[str, list[Any]] = {"micro_batch": [0, 0, 1, 1] * 2}
    if advantage is not None:
        more["advantage"] = advantage
    said = found(sqlite_engine, tmp_path, rows_of(["a"] * 4 + ["b"] * 4, [1.0, 1.0, 0.0, 0.0] * 2, **more))
    assert {code: each["severity"] for code, each in said.items()} == (
        {"split_group": severity} if severity else {}
    )


def test_whole_groups_on_each_rank(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = rows_of(["a"] * 2 + ["b"] * 2, [1.0, 0.0] * 2, rank=[0, 0, 1, 1])
    assert found(sqlite_engine, tmp_path, rows) == {}


def test_group_key_from_prompt_text(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("18"))["group_key_suspect"]
    assert said["severity"] == "critical"
    evidence = said["evidence"]
    assert evidence["groups_with_different_prompts"] == 1 and evidence["most_prompts_in_a_group"] == 3
    assert evidence["groups_with_a_twin"] == 2 and evidence["recorded"] == "prompt"
    assert evidence["differ_at"] == [6, 7] and set(said["groups"]) == {"t1", "t2", "t3"}


def test_an_id_for_every_row_of_a_prompt(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = rows_of(["a", "b", "c", "d"], [1.0, 0.0, 1.0, 0.0], prompt=["p", "p", "q", "q"])
    said = found(sqlite_engine, tmp_path, rows)
    assert set(said) == {"group_key_suspect", "singleton_groups"}
    assert said["group_key_suspect"]["severity"] == "critical"
    assert said["group_key_suspect"]["evidence"]["singletons_with_a_twin"] == 4


@pytest.mark.parametrize(
    "prompt",
    [
        ["q", "q", "q", "q"],  # the same question twice, each with its group
        ["user: hi", "user: hi\n\nassistant: yes", "q", "q and more"],  # turns that grow
        ["what is on [1 image]", "what is on [1 image]"] * 2,  # the image decides
    ],
)
def test_prompts_that_are_no_fault(sqlite_engine: Engine, tmp_path: Path, prompt: list[str]) -> None:
    rows = rows_of(["a", "a", "b", "b"], [1.0, 0.0, 1.0, 0.0], prompt=prompt)
    assert found(sqlite_engine, tmp_path, rows) == {}


def segments(**more: list[Any]) -> list[dict[str, Any]]:
    """Group a: one rollout of three rows (reward 1), and two of one row each (reward 0)."""
    return rows_of(
        ["a"] * 5 + ["b"] * 2,
        [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        rollout_id=["r0", "r0", "r0", "r1", "r2", "r3", "r4"],
        segment=[0, 1, 2, 0, 0, 0, 0],
        **more,
    )


@pytest.mark.parametrize(
    ("advantage", "recorded"), [(None, "unknown"), ([0.4, 0.4, 0.4, -0.6, -0.6, 0.5, -0.5], "rows")]
)
def test_segments_that_vote(
    sqlite_engine: Engine, tmp_path: Path, advantage: list[float] | None, recorded: str
) -> None:
    rows = segments(**({} if advantage is None else {"advantage": advantage}))
    said = found(sqlite_engine, tmp_path, rows)["repeated_rollout_segments"]
    assert said["severity"] == "critical" and said["rollouts"] == [0, 1, 2]
    # By row the mean is 3/5, by rollout 1/3.
    assert said["evidence"]["largest_shift_of_group_mean"] == pytest.approx(3 / 5 - 1 / 3)
    assert said["evidence"]["recorded"] == recorded and said["evidence"]["most_rows_of_one"] == 3


def test_segments_counted_once(sqlite_engine: Engine, tmp_path: Path) -> None:
    third = 1 / 3
    rows = segments(advantage=[2 * third, 2 * third, 2 * third, -third, -third, 0.5, -0.5])
    assert "repeated_rollout_segments" not in found(sqlite_engine, tmp_path, rows)


def test_a_step_called_rollout_id_is_no_rollout(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = rows_of(["a", "a", "b", "b"], [1.0, 0.0, 1.0, 0.0], rollout_id=["7"] * 4)
    assert found(sqlite_engine, tmp_path, rows) == {}
