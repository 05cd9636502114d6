"""Any table by its columns: what is guessed, what is asked, what is refused, and never a silent repair."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from app.errors import Unprocessable
from app.ingest import File, Options, Problem, Rollout, Source, read_all, unwrap
from app.ingest.mapping import Remembered
from app.ingest.tabular import look
from app.settings import Settings
from tests.ingest.reading import SAMPLES, Outcome, jsonl, read, read_rows, sample


def written(folder: Path, rows: list[list[Any]], separator: str = ",", name: str = "table.csv") -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(rows)
    path = folder / name
    path.write_bytes(text.getvalue().encode())
    return path


HEAD = ["question", "completion", "score", "prompt_id"]
ROWS = [["What is 1+1?", f"It is {n}", n / 2, n // 2] for n in range(4)]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_text_and_a_reward_per_row_is_a_batch(tmp_path: Path, separator: str) -> None:
    outcome = read(written(tmp_path, [HEAD, *ROWS], separator))
    assert outcome.headers[0].format == "table"
    assert [rollout.response for rollout in outcome.rollouts] == [row[1] for row in ROWS]
    assert [rollout.reward for rollout in outcome.rollouts] == [0.0, 0.5, 1.0, 1.5]
    assert [rollout.row for rollout in outcome.rollouts] == [1, 2, 3, 4]
    assert outcome.groups == {"0": [1, 2], "1": [3, 4]}
    assert not outcome.errors
    said = outcome.only("columns_mapped").message
    assert "response = completion" in said and "reward = score" in said
    assert "not found: step" in said and "column.<field>=<column>" in said


def test_quoted_newlines_quotes_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbfprompt,response,reward\r\n"a\nb","say ""hi"", then\r\nstop",1\r\n\r\nx,y,0\r\n'
    )
    outcome = read(path)
    assert [rollout.prompt for rollout in outcome.rollouts] == ["a\nb", "x"]
    assert outcome.rollouts[0].response == 'say "hi", then\r\nstop'
    assert outcome.rollouts[1].row == 2


def test_the_spreadsheet_export_waits_for_a_word_and_is_then_read() -> None:
    asked = sample("broken/spreadsheet_export.csv").sentence()
    assert "'1,1'" in asked and "decimal=comma" in asked
    outcome = sample("broken/spreadsheet_export.csv", decimal="comma")
    assert [rollout.reward for rollout in outcome.rollouts] == [1.1, 1.1, 0.1, 1.1, 1.1, 0.1, 1.1, 0.1]
    assert {rollout.step for rollout in outcome.rollouts} == {5}
    assert all(rollout.length is None for rollout in outcome.rollouts)
    assert len(outcome.groups) == 2
    for problem in outcome.said("ambiguous_list"):
        assert "per-token columns cannot be trusted from this export" in problem.message
    as_points = sample("broken/spreadsheet_export.csv", decimal="point")
    assert all(rollout.reward is None for rollout in as_points.rollouts)
    assert len([p for p in as_points.problems if p.field == "reward" and "not a number" in p.message]) == 8


def test_numbers_with_commas_are_never_guessed(tmp_path: Path) -> None:
    rows = [[f"r{n}", "1,5" if n == 3 else "2.5"] for n in range(5)]
    path = written(tmp_path, [["response", "reward"], *rows], ";")
    assert "'1,5'" in read(path).sentence()
    late = [[f"r{n}", "1,5" if n == 99 else "2.5"] for n in range(120)]
    outcome = read(written(tmp_path, [["response", "reward"], *late], ";"))
    assert outcome.rollouts[99].reward is None
    assert any(
        problem.row == 100 and '"1,5" is not a number' in problem.message for problem in outcome.problems
    )
    mixed = [["r", "1,5"], ["r", "1.234"], ["r", "1.234,5"]]
    outcome = read(written(tmp_path, [["response", "reward"], *mixed], ";"), decimal="comma")
    assert [rollout.reward for rollout in outcome.rollouts] == [1.5, None, None]


def test_lists_with_decimal_commas_alone_raise_the_question(tmp_path: Path) -> None:
    rows = [["r", "1", "[0,5, 1,5]"]]
    assert "decimal" in read(written(tmp_path, [["response", "reward", "values"], *rows], ";")).sentence()


def test_lists_in_cells_are_read_as_json(tmp_path: Path) -> None:
    rows = [
        ["ab", "[1, 2]", '["a", "b"]', "[0.5, nan]", "[1,0]"],
        ["cd", "[3]", "['c', 'd']", "[None, -inf]", "[1.0 0.0]"],
    ]
    head = ["response", "token_ids", "response_tokens", "values", "loss_mask"]
    outcome = read(written(tmp_path, [head, *rows]))
    first, second = outcome.rollouts
    assert first.tokens["response_ids"].tolist() == [1, 2]
    assert first.response_tokens == ["a", "b"]
    assert np.isnan(first.tokens["values"][1]) and first.tokens["response_mask"].tolist() == [1, 0]
    assert second.response_tokens is None and "response_mask" not in second.tokens
    assert {p.field for p in outcome.said("not_json")} == {"response_tokens", "response_mask"}


def test_cells_that_a_spreadsheet_cut_are_said(tmp_path: Path) -> None:
    ids = json.dumps(list(range(9000)))[:32_767]
    path = written(
        tmp_path, [["response", "reward", "response_ids"], ["x" * 32_767, 1, ids], ["y", 2, "[1]"]]
    )
    outcome = read(path)
    cut = outcome.said("cell_cut")
    assert {problem.field for problem in cut} == {"response", "response_ids"}
    assert all("32,767" in problem.message for problem in cut)
    assert "response_ids" not in outcome.rollouts[0].tokens


def test_formulas_are_text_and_errors_of_a_spreadsheet_are_said(tmp_path: Path) -> None:
    rows = [["=HYPERLINK(1)", "=1+1", "#REF!"], ["#NAME?", "1", "2"], ["x", "0", "2"]]
    outcome = read(written(tmp_path, [["response", "reward", "step"], *rows]))
    assert [rollout.response for rollout in outcome.rollouts] == ["=HYPERLINK(1)", "#NAME?", "x"]
    assert [rollout.reward for rollout in outcome.rollouts] == [None, 1.0, 0.0]
    assert [rollout.step for rollout in outcome.rollouts] == [None, 2, 2]
    assert {problem.field for problem in outcome.said("cell_error")} == {"response", "step"}


def test_rows_that_do_not_fit_the_header_are_rejected_and_the_others_stand(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"response,reward\n" + b"a,1\n" * 20 + b"b,2,3\n" + b'c,3\n"d\xe9",4\n"e,5\n')
    outcome = read(path)
    assert outcome.errors == [21, 24]
    assert outcome.rollouts[-1].response == "d\ufffd"
    assert "has 3 cells, the header has 2" in outcome.problems[1].message
    assert any("ends inside a quoted cell" in problem.message for problem in outcome.problems)
    assert outcome.only("invalid_utf8")


def test_a_column_is_what_the_caller_says(tmp_path: Path) -> None:
    rows = [["right", "q", "wrong", 1, 0.5], ["also right", "q", "wrong", 2, 0.25]]
    path = written(tmp_path, [["text", "q", "output", "score", "fmt"], *rows])
    columns = {"response": "text", "prompt": "q", "reward_components.format": "fmt", "reward": ""}
    outcome = read(path, columns=columns)
    assert [rollout.response for rollout in outcome.rollouts] == ["right", "also right"]
    assert outcome.rollouts[0].reward is None
    assert outcome.rollouts[0].reward_components == {"format": 0.5}
    assert outcome.rollouts[0].extra == {"output": "wrong", "score": "1"}
    assert "as asked: response = text" in outcome.only("columns_mapped").message
    wrong = read(path, columns={"response": "txt"}).sentence()
    assert "no column 'txt' for response" in wrong and "text, q, output" in wrong
    with pytest.raises(Unprocessable, match="no such field"):
        read(path, columns={"rewrd": "score"})


def test_group_by_may_name_any_column(tmp_path: Path) -> None:
    path = written(tmp_path, [HEAD, *ROWS])
    outcome = read(path, group_by="question")
    assert outcome.groups == {"What is 1+1?": [1, 2, 3, 4]}
    assert outcome.rollouts[0].derived["group_id"] == "derived:column:question"
    assert read(path, group_by="stride:2").groups == {"rows-0": [1, 2], "rows-1": [3, 4]}


def test_without_a_response_the_columns_are_said(tmp_path: Path) -> None:
    path = written(tmp_path, [["essay", "mark"], ["A long text about it", 3], ["Another", 4]])
    said = read(path).sentence()
    assert "essay, mark" in said and "Perhaps essay?" in said and "column.response=<column>" in said


def test_columns_that_nobody_knows_are_said_of_every_kind_of_file(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"essay": "A long text", "mark": 3}])
    pq.write_table(table, tmp_path / "rows.parquet")
    feather.write_feather(table, tmp_path / "rows.arrow", compression="uncompressed")
    for name, written in (("rows.parquet", "Parquet"), ("rows.arrow", "an Arrow table")):
        said = read(tmp_path / name).sentence()
        assert f"Columns seen ({written}): essay, mark" in said and "column.response=<column>" in said


def test_rows_of_json_and_parquet_that_nobody_claims(tmp_path: Path) -> None:
    rows = [{"q": "1+1", "generation": f"{n}", "score": n, "ids": [n, 2]} for n in range(3)]
    columns = {"response_ids": "ids", "prompt": "q"}
    by_line = read_rows(tmp_path, *rows)
    assert [rollout.reward for rollout in by_line.rollouts] == [0.0, 1.0, 2.0]
    assert by_line.rollouts[2].extra == {"q": "1+1", "ids": [2, 2]}
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(rows, indent=1))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "rows.parquet")
    feather.write_feather(table, tmp_path / "rows.arrow", compression="uncompressed")
    for path in (array, tmp_path / "rows.parquet", tmp_path / "rows.arrow", jsonl(tmp_path, rows)):
        outcome = read(path, columns=columns)
        assert outcome.headers[0].format == "table"
        assert [rollout.prompt for rollout in outcome.rollouts] == ["1+1"] * 3
        assert outcome.rollouts[1].tokens["response_ids"].tolist() == [1, 2]
        assert outcome.rollouts[1].tokens["response_ids"].dtype == np.int64


def test_columns_that_are_named_takes_precedence_over_the_format(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": "r", "quality": 0.5}]
    assert read_rows(tmp_path, *rows).rollouts[0].reward is None
    outcome = read_rows(tmp_path, *rows, columns={"reward": "quality"})
    assert (outcome.headers[0].format, outcome.rollouts[0].reward) == ("table", 0.5)


def test_what_holds_something_else_is_not_taken_by_its_name(tmp_path: Path) -> None:
    rows = [["r1", "good", "0.5"], ["r2", "bad", "0.25"]]
    outcome = read(written(tmp_path, [["response", "score", "advantages"], *rows]))
    said = outcome.only("column_not_used").message
    assert "score is named like reward but holds texts" in said
    assert [rollout.advantage for rollout in outcome.rollouts] == [0.5, 0.25]


def known(path: Path, remembered: dict[str, Remembered], **options: Any) -> Outcome:
    outcome = Outcome()
    for item in read_all([File(path, path.name)], Options(**options), Settings(), remembered):
        if isinstance(item, Rollout):
            outcome.rollouts.append(item)
        elif isinstance(item, Problem):
            outcome.problems.append(item)
    return outcome


def test_a_mapping_is_remembered_by_the_set_of_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path, [["b", "a", "n"], ["x", "r1", "1,5"], ["x", "r2", "2,5"], ["y", "r3", "0,5"]], ";"
    )
    (source,) = unwrap(File(path, path.name), Settings())
    assert isinstance(source, Source)
    found = look(source, Settings())
    assert found is not None and found.columns == ("b", "a", "n")
    said = Remembered({"response": "a", "reward": "n"}, "comma", "b")
    outcome = known(path, {found.shape: said})
    assert [rollout.reward for rollout in outcome.rollouts] == [1.5, 2.5, 0.5]
    assert outcome.groups == {"x": [1, 2], "y": [3]}
    assert outcome.rollouts[0].derived["group_id"] == "derived:column:b"
    assert "as remembered: response = a" in outcome.only("columns_mapped").message
    other = known(path, {found.shape: said}, columns={"response": "b"}, group_by="stride:3")
    assert [rollout.response for rollout in other.rollouts] == ["x", "x", "y"]
    assert other.groups == {"rows-0": [1, 2, 3]}


def test_prose_logs_and_numbers_are_no_tables(tmp_path: Path) -> None:
    for text in ("one, two\nthree, four and five\n", "1,2\n3,4\n", "response\na\nb\n", "a,b\n", ","):
        path = tmp_path / "x.csv"
        path.write_text(text)
        assert not read(path).rollouts
    assert "no rows found" in sample("broken/plain_text.txt").sentence()
    assert (SAMPLES / "broken" / "plain_text.txt").is_file()


def test_a_quote_that_nobody_closes_costs_no_more_than_a_row_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ingest.csv_rows.MOST_ROW", 1000)
    path = tmp_path / "t.csv"
    path.write_text("response,reward\n" + "a,1\n" * 20 + '"' + "never closed,2\n" * 500)
    outcome = read(path)
    assert len(outcome.rollouts) == 20
    assert any("never closed" in problem.message for problem in outcome.problems)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("prompt,response,reward,reward\nq,a,1,0\nq,b,0,1\n", "with reward more than once in its header"),
        ("prompt,response,reward\n", "with a header and no rows"),
        ('prompt,response,reward\nq,"a,1\nq,b,0\n', "row 1: incomplete: the file ends inside a quoted cell"),
        ("prompt;response;reward\nq;a\nq;b\n", "row 1: it has 2 cells, the header has 3"),
    ],
)
def test_a_table_of_which_no_row_can_be_read_says_why(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert part in read(path).sentence()


def test_one_row_that_fits_is_enough_where_the_header_names_a_response(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("prompt,response,reward\nq,a\nq,b,1\nq,c,0,9\n")
    outcome = read(path)
    assert [one.response for one in outcome.rollouts] == ["b"]
    assert outcome.errors == [1, 3]


def test_a_reward_column_of_words_is_missed_aloud(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("prompt,response,reward\nq,a,good\nq,b,bad\nq,c,1\n")
    said = read(path).only("column_not_used")
    assert said.severity == "warning"
    assert "reward is named like reward but holds texts" in said.message
