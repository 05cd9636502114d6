"""Groups: recorded ones are told apart, derived ones name their rule and say what came of it."""

from pathlib import Path
from typing import Any

import pytest

from app.errors import BadRequest
from app.ingest import Options
from tests.ingest.reading import SAMPLES, jsonl, read, read_rows


def row(prompt: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"response": "r", **({} if prompt is None else {"prompt": prompt}), **fields}


def partition(groups: dict[str, list[int]]) -> list[list[int]]:
    return list(groups.values())


def test_identical_prompts_of_a_step_are_one_group(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row("a"), row("b"), row("a"), row("b"))
    assert partition(outcome.groups) == [[1, 3], [2, 4]]
    assert {rollout.derived["group_id"] for rollout in outcome.rollouts} == {"derived:prompt"}
    problem = outcome.only("groups_derived")
    assert problem.message == "no group id; grouping by identical prompt gives 2 groups of 2"
    assert problem.severity == "info"


def test_the_same_prompt_has_the_same_id_in_every_step(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row("a", step=1), row("a", step=1), row("a", step=2), row("a", step=2))
    assert len({rollout.group_id for rollout in outcome.rollouts}) == 1
    assert "2 groups of 2" in outcome.only("groups_derived").message


def test_unequal_groups_are_a_warning(tmp_path: Path) -> None:
    problem = read_rows(tmp_path, row("a"), row("a"), row("a"), row("b")).only("unequal_groups")
    assert "2 groups of unequal size (1 to 3 rows)" in problem.message
    assert problem.severity == "warning"


def test_prompts_of_other_kinds_group_too(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "q"}]
    outcome = read_rows(
        tmp_path,
        {"response": "a", "prompt": messages},
        {"response": "b", "prompt": [{"content": "q", "role": "user"}]},
        {"response": "a", "prompt_ids": [1, 2]},
        {"response": "b", "prompt_ids": [1, 2]},
        {"response": "a", "messages": [*messages, {"role": "assistant", "content": "a"}]},
        {"response": "b", "messages": [*messages, {"role": "assistant", "content": "b"}]},
    )
    assert partition(outcome.groups)[:2] == [[1, 2, 5, 6], [3, 4]]


def test_rows_without_anything_to_group_by_stand_alone(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row(), row(), row())
    assert list(outcome.groups) == ["row-1", "row-2", "row-3"]
    assert {rollout.derived["group_id"] for rollout in outcome.rollouts} == {"derived:alone"}
    assert "each stands alone" in outcome.only("no_group_id").message


def test_stride_counts_rows_of_each_step(tmp_path: Path) -> None:
    rows = [row("p", step=step, group_id="recorded") for step in (1, 1, 1, 1, 2, 2, 1)]
    outcome = read_rows(tmp_path, *rows, group_by="stride:2")
    assert [rollout.group_id for rollout in outcome.rollouts] == [
        "rows-0", "rows-0", "rows-1", "rows-1", "rows-0", "rows-0", "rows-2",
    ]  # fmt: skip
    assert outcome.rollouts[0].derived["group_id"] == "derived:stride:2"
    assert "grouped by stride 2" in outcome.only("unequal_groups").message


def test_stride_counts_over_the_files_of_an_upload(tmp_path: Path) -> None:
    first = jsonl(tmp_path, [row("a", step=1)], "rank_0.jsonl")
    second = jsonl(tmp_path, [row("b", step=1)], "rank_1.jsonl")
    outcome = read(first, second, group_by="stride:2")
    assert [rollout.group_id for rollout in outcome.rollouts] == ["rows-0", "rows-0"]


def test_a_column_can_be_chosen(tmp_path: Path) -> None:
    rows = [
        row("p", task=task, data_source=source)
        for task, source in ((1, "x"), ("1", "x"), (1, "y"), (None, "y"))
    ]
    by_task = read_rows(tmp_path, *rows, group_by="task")
    assert [rollout.group_id for rollout in by_task.rollouts] == ["1", "1 (text)", "1", "row-4"]
    assert by_task.rollouts[0].derived["group_id"] == "derived:column:task"
    assert "row 4" in by_task.only("no_group_id").message
    by_source = read_rows(tmp_path, *rows, group_by="data_source")
    assert partition(by_source.groups) == [[1, 2], [3, 4]]


def test_a_column_that_no_row_has_is_said(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row("a"), row("b"), group_by="nothing")
    assert "no row has the column nothing" in outcome.only("no_group_column").message
    assert outcome.only("no_group_column").severity == "warning"


def test_recorded_ids_stand_even_where_prompts_differ(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row("a", group_id="g"), row("b", group_id="g"), row("a", uid="h"))
    assert outcome.groups == {"g": [1, 2], "h": [3]}
    assert outcome.problems == []
    assert all(rollout.derived == {} for rollout in outcome.rollouts)


def test_empty_ids_never_meet(tmp_path: Path) -> None:
    ids = ("g", None, "", float("nan"), "g", None)
    outcome = read_rows(tmp_path, *(row("same prompt", group_id=id) for id in ids))
    assert outcome.groups == {"g": [1, 5], "row-2": [2], "row-3": [3], "row-4": [4], "row-6": [6]}


def test_ids_of_different_types_never_meet(tmp_path: Path) -> None:
    ids = (True, 1, 1.0, "1", "true", "1.0", [1], "[1]", {"a": 1})
    outcome = read_rows(tmp_path, *(row("p", group_id=id) for id in ids))
    assert len(outcome.groups) == len(ids)
    assert [rollout.group_id for rollout in outcome.rollouts][:4] == ["true", "1", "1.0", "1 (text)"]
    assert outcome.rollouts[1].extra["group_id_type"] == "whole number"


def test_a_file_without_ids_after_one_with_ids(tmp_path: Path) -> None:
    first = jsonl(tmp_path, [row("a", group_id="g")], "1.jsonl")
    second = jsonl(tmp_path, [row("a"), row("a")], "2.jsonl")
    outcome = read(first, second)
    assert [rollout.derived.get("group_id") for rollout in outcome.rollouts] == [
        None,
        "derived:prompt",
        "derived:prompt",
    ]


def test_an_id_that_looks_derived_does_not_swallow_rows(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, row("a", group_id="row-2"), row("a", group_id=None))
    assert len(outcome.groups) == 2


@pytest.mark.parametrize("rule", ["stride:0", "stride:x", "stride:", "stride:-1", "stride:1e3", "stride:²"])
def test_a_bad_stride_is_refused(rule: str) -> None:
    with pytest.raises(BadRequest, match="stride:N"):
        Options.from_request({"group_by": rule})


def test_options_take_what_concerns_reading() -> None:
    request = {
        "run": "r",
        "step": 3,
        "columns": {},
        "tokenizer": None,
        "group_by": "stride:4",
        "default_run": "x",
    }
    assert Options.from_request(request) == Options(run="r", step=3, group_by="stride:4")
    with pytest.raises(BadRequest, match="keep or drop"):
        Options.from_request({"duplicates": "maybe"})


def test_adjacent_runs_keep_a_repeated_prompt_apart(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    prompts = ["a", "a", "b", "b", "a", "a"]
    table = pa.table({"step": [1] * 6, "prompt": prompts, "completion": ["x"] * 6, "advantage": [0.5] * 6})
    pq.write_table(table, tmp_path / "completions_00001.parquet")
    outcome = read(tmp_path / "completions_00001.parquet")
    assert partition(outcome.groups) == [[1, 2], [3, 4], [5, 6]]
    assert outcome.rollouts[0].derived["group_id"] == "derived:adjacent_prompt"
    assert "3 groups of 2" in outcome.only("groups_derived").message


def test_samples_can_be_grouped_otherwise() -> None:
    path = SAMPLES / "broken/missing_group.jsonl"
    outcome = read(path, group_by="stride:4")
    assert partition(outcome.groups) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert outcome.only("groups_derived").message == "grouped by stride 4 gives 2 groups of 4"
