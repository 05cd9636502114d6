"""verl's two trainers and its validation dumps, as they write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.reading import jsonl, read, read_rows, sample

UUID = "96e2815f-0797-4a80-aa4c-10a7151de174"


def row(**fields: Any) -> dict[str, Any]:
    return {"input": "p", "output": "r", "gts": "42", "score": 1.0, "step": 3} | fields


def test_the_legacy_trainer_has_derived_groups_and_text_extras() -> None:
    outcome = sample("verl/v0_rollout_data_dir/1.jsonl")
    assert outcome.headers[0].raw["framework"] == "verl"
    first = outcome.rollouts[0]
    assert first.derived == {"group_id": "derived:prompt", "split": "derived:no reward beside score"}
    assert first.reward == 1.100000023841858
    assert first.reward_components == {"acc": 1.0, "fmt": 0.1}
    assert first.ground_truth == "42"
    assert first.extra == {
        "acc": 1.0, "pred": ". \\boxed{42}", "truncated": "False", "latency": "0.25",
        "request_id": "7922e4ff-1",
    }  # fmt: skip
    assert "4 groups of 4" in outcome.only("groups_derived").message


def test_rows_are_shuffled_and_still_grouped() -> None:
    groups = sample("verl/v0_rollout_data_dir/1.jsonl").groups
    assert all(len(rows) == 4 for rows in groups.values())
    assert any(rows[-1] - rows[0] > 3 for rows in groups.values())


def test_unequal_groups_of_the_legacy_trainer_are_a_warning(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row(), row(), row(input="q"))
    assert "unequal size (1 to 2 rows)" in outcome.only("unequal_groups").message


def test_the_v1_trainer_names_session_and_output_in_the_uid() -> None:
    rollouts = sample("verl/v1_rollout_data_dir/3.jsonl").rollouts
    first = rollouts[1]
    assert (first.group_id, first.rollout_id, first.segment) == (UUID, "1", 0)
    assert first.sample_id == f"{UUID}_1_0"
    assert "group_id" not in first.derived


def test_two_outputs_of_one_session_stay_apart(tmp_path: Path) -> None:
    outcome = read_rows(
        tmp_path, *(row(uid=f"a_b_{session}_{output}") for session in (0, 1) for output in (0, 1))
    )
    assert [(rollout.rollout_id, rollout.segment) for rollout in outcome.rollouts] == [
        ("0", 0), ("0", 1), ("1", 0), ("1", 1),
    ]  # fmt: skip
    assert outcome.groups == {"a_b": [1, 2, 3, 4]}


@pytest.mark.parametrize(("uid", "group"), [("abc", "abc"), ("a_1", "a_1"), (17, "17"), ("a_x_1", "a_x_1")])
def test_other_uids_are_groups_as_they_are(uid: Any, group: str, tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, row(uid=uid)).rollouts
    assert (rollout.group_id, rollout.segment) == (group, None)


def test_a_validation_dump(tmp_path: Path) -> None:
    rows = [
        json.dumps(row(gts={"answer": [1]}, reward=1.0, uid="g_0_0")),
        '{"input": "p", "output": "r", "gts": null, "score": NaN, "step": 3, "reward": NaN, "uid": "g_1_0"}',
    ]
    outcome = read_rows(tmp_path, *rows)
    first, second = outcome.rollouts
    assert (first.split, first.derived["split"]) == ("val", "derived:reward beside score")
    assert first.ground_truth == '{"answer": [1]}'
    assert first.extra == {"reward": 1.0}
    assert second.ground_truth is None
    assert second.reward != second.reward
    assert "1 NaN score" in outcome.only("nonfinite").message


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("v1_validation_data_dir/3.jsonl", "val"),
        ("run/val/3.jsonl", "val"),
        ("val-dump/3.jsonl", "val"),
        ("rollout_data_dir/3.jsonl", "train"),
        ("values/3.jsonl", "train"),
        ("3.jsonl", "train"),
    ],
)
def test_the_split_may_be_in_the_folder(name: str, split: str, tmp_path: Path) -> None:
    outcome = read(jsonl(tmp_path, [row()]), names=[name])
    assert outcome.rollouts[0].split == split


def test_the_step_may_be_in_the_name(tmp_path: Path) -> None:
    path = jsonl(tmp_path, [row(step=None)])
    (rollout,) = read(path, names=["dir/17.jsonl"]).rollouts
    assert (rollout.step, rollout.derived["step"]) == (17, "derived:file name")
    assert read(path, names=["dir/last.jsonl"]).rollouts[0].step is None


def test_rows_without_output_are_rejected(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row(), row(output=None), row(output=["a"]))
    assert outcome.errors == [2, 3]
    assert "row 3: output is a list, not text" in outcome.said("no_response")[1].message


def test_a_score_that_is_text(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row(score="0.5"), row(score="n/a"))
    assert [rollout.reward for rollout in outcome.rollouts] == [0.5, None]
    assert outcome.only("not_a_number").row == 2


def test_other_numbers_beside_the_score_are_no_components(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, row(acc=1.0, score_parts={"a": "x"})).rollouts
    assert rollout.reward_components is None
    assert rollout.extra == {"acc": 1.0, "score_parts": {"a": "x"}}
