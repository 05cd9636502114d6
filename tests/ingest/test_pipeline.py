"""The whole way from files to records: the same every time, bounded, the caller's word above the file's."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadRequest, TooLarge
from app.ingest import File, Header, Options, Problem, Rollout, read_all
from app.settings import Settings
from tests.ingest.reading import SAMPLES, jsonl, read, read_rows

ROW = {"response": "a", "reward": 1.0, "group_id": "g"}


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [ROW | {"sample_index": index} | fields for index in range(count)]


def items(*paths: Path, **options: Any) -> list[str]:
    files = [File(path, path.name) for path in paths]
    return [repr(item) for item in read_all(files, Options(**options), Settings())]


def test_reading_again_gives_the_same_items() -> None:
    paths = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and "bomb" not in path.name)
    assert items(*paths) == items(*paths)
    assert len(items(*paths)) > 300


def test_reading_stops_where_the_caller_stops(tmp_path: Path) -> None:
    reading = read_all([File(jsonl(tmp_path, rows(1000)), "rows.jsonl")], Options(), Settings())
    taken = list(itertools.islice(reading, 5))
    assert [type(item) for item in taken] == [Header, *[Rollout] * 4]
    reading.close()
    assert list(reading) == []


def test_position_moves_to_the_total_over_all_files(tmp_path: Path) -> None:
    first = jsonl(tmp_path, rows(5000), "a.jsonl")
    second = SAMPLES / "canonical/batch.parquet"
    reading = read_all([File(first, "a.jsonl"), File(second, "b.parquet")], Options(), Settings())
    assert reading.total == first.stat().st_size + second.stat().st_size
    seen = [reading.position for _ in reading]
    assert seen == sorted(seen)
    assert 0 < seen[0] < reading.total
    assert reading.position == reading.total


def test_the_callers_word_stands_above_the_files(tmp_path: Path) -> None:
    outcome = read_rows(
        tmp_path,
        {"_header": {"run": "from the file"}},
        ROW | {"step": 3, "split": "train"},
        ROW | {"sample_index": 1},
        run="mine",
        step=7,
        split="val",
    )
    assert [header.run for header in outcome.headers] == ["mine"]
    assert {(rollout.step, rollout.split) for rollout in outcome.rollouts} == {(7, "val")}
    assert outcome.only("step_given").message == "step 7 as asked, another step is in the file (row 2)"
    assert "split val as asked" in outcome.only("split_given").message


def test_header_lines_are_no_rows(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, {"_header": {"run": "r", "gamma": 0.9}}, ROW)
    assert (outcome.headers[0].run, outcome.headers[0].raw["gamma"]) == ("r", 0.9)
    assert [rollout.row for rollout in outcome.rollouts] == [2]


def test_a_run_that_is_no_text_is_no_run(tmp_path: Path) -> None:
    assert read_rows(tmp_path, {"_header": {"run": 5}}, ROW).headers[0].run is None


def test_rows_are_limited_over_all_files(tmp_path: Path) -> None:
    settings = Settings(max_rows=5)
    path, other = jsonl(tmp_path, rows(3), "a.jsonl"), jsonl(tmp_path, rows(3), "b.jsonl")
    assert len(read(path, settings=settings).rollouts) == 3
    with pytest.raises(TooLarge, match=r"5 \(VANTAGE_MAX_ROWS\)"):
        read(path, other, settings=settings)


def test_rejected_rows_count_too(tmp_path: Path) -> None:
    path = jsonl(tmp_path, [ROW, *["broken"] * 10])
    with pytest.raises(TooLarge, match="VANTAGE_MAX_ROWS"):
        read(path, settings=Settings(max_rows=5))


def test_long_lines_are_skipped_and_said(tmp_path: Path) -> None:
    settings = Settings(max_line_bytes=200)
    path = jsonl(tmp_path, [ROW, ROW | {"prompt": "x" * 5000}, ROW | {"sample_index": 3}])
    outcome = read(path, settings=settings)
    assert [rollout.row for rollout in outcome.rollouts] == [1, 3]
    assert "longer than 200 bytes (VANTAGE_MAX_LINE_BYTES)" in outcome.only("line_too_long").message
    assert "line 1 is longer than 20 bytes" in read(path, settings=Settings(max_line_bytes=20)).sentence()


def test_responses_of_too_many_tokens_are_rejected(tmp_path: Path) -> None:
    settings = Settings(max_tokens_per_rollout=3)
    outcome = read(
        jsonl(tmp_path, [ROW | {"response_ids": [1, 2, 3]}, ROW | {"response_ids": [1] * 4}]),
        settings=settings,
    )
    assert [rollout.row for rollout in outcome.rollouts] == [1]
    assert "4 tokens, more than 3 (VANTAGE_MAX_TOKENS_PER_ROLLOUT)" in outcome.only("too_many_tokens").message


def test_one_bad_file_does_not_cost_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "page.html"
    bad.write_text("<!DOCTYPE html><title>Login</title>")
    outcome = read(jsonl(tmp_path, rows(2)), bad, SAMPLES / "canonical/batch.npz")
    assert len(outcome.rollouts) == 18
    (error,) = [problem for problem in outcome.problems if problem.severity == "error"]
    assert (error.file, error.row) == ("page.html", None)
    assert [header.file for header in outcome.headers] == ["rows.jsonl", "batch.npz"]


def test_one_file_carries_no_file_name(tmp_path: Path) -> None:
    outcome = read(jsonl(tmp_path, [ROW, "broken"]))
    assert outcome.rollouts[0].file is None
    assert {problem.file for problem in outcome.problems} == {None}


def test_unknown_formats_are_refused_before_reading() -> None:
    with pytest.raises(BadRequest, match="canonical-jsonl"):
        read_all([], Options(format="csv"), Settings())


def test_u2028_and_carriage_returns_do_not_end_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\x0bd"
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f'{{"response": "{text}"}}\r\n\r\n{{"response": "x"}}'.encode())
    outcome = read(path)
    assert [rollout.response for rollout in outcome.rollouts] == [text, "x"]
    assert [rollout.row for rollout in outcome.rollouts] == [1, 3]


@pytest.mark.parametrize("block", ["[", " [ ", "\ufeff[\n"])
def test_arrays_of_rows_are_cut_exactly(block: str, tmp_path: Path) -> None:
    texts = ['"],[{', "\\", 'a\\"b', "é", ""]
    body = ",\n".join(
        f'{{"response": {text!r}}}'.replace("'", '"') if text == "é" else _row(text) for text in texts
    )
    path = tmp_path / "rows.json"
    path.write_text(f"{block}{body}]  ", encoding="utf-8")
    outcome = read(path)
    assert [rollout.response for rollout in outcome.rollouts] == texts
    assert [rollout.row for rollout in outcome.rollouts] == [1, 2, 3, 4, 5]
    path.write_text(f"{block}{body}"[:-5], encoding="utf-8")
    cut = read(path)
    assert len(cut.rollouts) == 4
    assert "line 5 is incomplete" in cut.only("incomplete_row").message


def _row(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{{"response": "{escaped}"}}'


def test_a_large_array_is_cut_at_every_block_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ingest.lines.BLOCK", 7)
    path = tmp_path / "rows.json"
    path.write_text("[" + ",".join(_row('\\"' * 3 + str(index)) for index in range(40)) + "]")
    assert [rollout.response for rollout in read(path).rollouts] == [
        '\\"' * 3 + str(index) for index in range(40)
    ]


def test_floods_of_blank_and_nul_lines_cost_little(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = json.dumps(ROW).encode() + b"\n"
    path.write_bytes(row + b"\n \r\n" * 2_000_000 + row + b"\0\n" * 1000 + row)
    outcome = read(path)
    assert [rollout.row for rollout in outcome.rollouts] == [1, 4_000_002, 4_001_003]
    assert "nothing but NUL bytes were skipped" in outcome.only("nul_lines").message
    assert len(outcome.problems) == 2


def test_problems_of_rows_come_with_their_row(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, ROW, ROW | {"advantages": "x", "sample_index": 1})
    problem = outcome.only("unusable_values")
    assert isinstance(problem, Problem)
    assert (problem.row, problem.field, problem.severity) == (2, "advantages", "warning")
    assert problem.message == "row 2: advantages is text, not a list; left out"
