"""Exact repeats: dropped where rows say which sample they are, else kept and said; or as asked."""

from pathlib import Path
from typing import Any

import pytest

from app.ingest.duplicates import digest
from tests.ingest.reading import jsonl, read, read_rows, sample

FULL: dict[str, Any] = {
    "response": "a",
    "prompt": "p",
    "sample_index": 0,
    "reward": 1.0,
    "response_ids": [1, 2],
    "advantages": [0.5, -0.5],
    "reward_components": {"a": 1.0, "b": None},
    "extra": {"k": [1, {"x": 2}]},
}


@pytest.mark.parametrize(("duplicates", "rows"), [(None, 8), ("drop", 8), ("keep", 12)])
def test_the_choice_is_the_users(duplicates: str | None, rows: int) -> None:
    outcome = sample("broken/duplicated_rows.jsonl", duplicates=duplicates)
    assert len(outcome.rollouts) == rows
    problem = outcome.only("duplicate_rows")
    assert problem.message.startswith("4 exact duplicate rows")
    assert ("duplicates=drop" if duplicates == "keep" else "duplicates=keep") in problem.message
    assert [p.row for p in outcome.said("duplicate_row")] == ([] if duplicates == "keep" else [9, 10, 11, 12])
    assert outcome.errors == []


def test_bare_texts_that_came_out_alike_are_kept(tmp_path: Path) -> None:
    row = {"prompt": "p", "response": "42", "reward": 1.0}
    outcome = read_rows(tmp_path, row, row, row)
    assert len(outcome.rollouts) == 3
    problem = outcome.only("duplicate_rows")
    assert (problem.severity, problem.message[:25]) == ("info", "2 exact duplicate rows (r")
    assert len(read_rows(tmp_path, row, row, row, duplicates="drop").rollouts) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"response": "b"},
        {"prompt": "q"},
        {"reward": None},
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"sample_index": 1},
        {"step": 1},
        {"response_ids": [1, 3]},
        {"advantages": [0.5, -0.25]},
        {"advantages": [0.5, None]},
        {"advantages": [0.5, float("nan")]},
        {"advantages": None, "returns": [0.5, -0.5]},
        {"reward_components": {"a": 1.0, "b": 0.0}},
        {"extra": {"k": [1, {"x": 3}]}},
        {"new": None, "truncated": False},
        {"group_id": "g"},
    ],
    ids=str,
)
def test_any_difference_makes_another_row(change: dict[str, Any], tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, FULL, FULL | change, FULL)
    assert [rollout.row for rollout in outcome.rollouts] == [1, 2]
    assert [problem.row for problem in outcome.said("duplicate_row")] == [3]


def test_how_a_row_was_written_does_not_matter(tmp_path: Path) -> None:
    text = '{"sample_index": 0, "response": "é", "advantages": [0.5, 1]}'
    other = '{ "advantages":[0.50,1.0],"response":"\\u00e9","sample_index":0 }'
    assert len(read_rows(tmp_path, text, other).rollouts) == 1


def test_repeats_in_another_file_are_found(tmp_path: Path) -> None:
    first = jsonl(tmp_path, [FULL], "a.jsonl")
    second = jsonl(tmp_path, [FULL | {"response": "b"}, FULL], "b.jsonl")
    outcome = read(first, second)
    assert [(rollout.file, rollout.row) for rollout in outcome.rollouts] == [("a.jsonl", 1), ("b.jsonl", 1)]
    problem = outcome.only("duplicate_row")
    assert (problem.file, problem.message) == ("b.jsonl", "row 2: repeats row 1 of a.jsonl exactly; left out")


def test_a_file_of_repeats_alone_is_no_unreadable_file(tmp_path: Path) -> None:
    first, second = jsonl(tmp_path, [FULL], "a.jsonl"), jsonl(tmp_path, [FULL], "b.jsonl")
    assert read(first, second).errors == []


def test_the_digest_does_not_depend_on_where_the_row_stood(tmp_path: Path) -> None:
    first, second = read_rows(tmp_path, FULL, FULL, duplicates="keep").rollouts
    assert first.digest == second.digest
    first.group_id = second.group_id = None  # as it was before groups were derived
    assert digest(first) == digest(second) == first.digest
    assert first.row != second.row


def test_odd_values_have_digests(tmp_path: Path) -> None:
    odd = {"response": "\ud800", "sample_id": "s", "big": 2**70, "nan": float("nan")}
    outcome = read_rows(tmp_path, odd, odd, odd | {"nan": None})
    assert [rollout.row for rollout in outcome.rollouts] == [1, 3]


def test_copies_in_another_file_are_named_with_it(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "response": f"a{i}", "reward": i} for i in range(3)]
    first, second = jsonl(tmp_path, rows, "a.jsonl"), jsonl(tmp_path, [*rows[:2], rows[0]], "b.jsonl")
    message = read(first, second).only("duplicate_rows").message
    assert "(rows 1, 2 and 3 of b.jsonl repeat rows 1, 2 and 1 of a.jsonl)" in message
    third = jsonl(tmp_path, [{"prompt": "q", "response": "a9", "reward": 9}] * 2, "c.jsonl")
    message = read(first, second, third).only("duplicate_rows").message
    assert "1 of b.jsonl" in message
    assert "2 of c.jsonl repeat" in message
    assert message.count("1 of c.jsonl") == 1
