"""JSON lists of rows that are not as they should be: each row that is there is read, what is odd is said."""

import json
from io import BufferedReader, BytesIO
from pathlib import Path

import pytest

from app.ingest import lines
from tests.ingest.reading import Outcome, read

ROWS = [
    {"step": 1, "prompt": "q", "response": f"a{i}", "reward": float(i), "sample_id": str(i)} for i in range(6)
]
LIST = json.dumps(ROWS)


def reading(folder: Path, text: str) -> Outcome:
    path = folder / "rows.json"
    path.write_text(text)
    return read(path)


def said(outcome: Outcome) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in outcome.problems if one.code != "groups_derived"]


@pytest.mark.parametrize("between", ["\n", "", " \n\n"])
def test_lists_one_after_another_are_all_read(tmp_path: Path, between: str) -> None:
    parts = [json.dumps(ROWS[:1]), json.dumps(ROWS[1:5]), json.dumps(ROWS[5:])]
    outcome = reading(tmp_path, between.join(parts))
    assert [one.response for one in outcome.rollouts] == [row["response"] for row in ROWS]
    assert [one.row for one in outcome.rollouts] == [1, 2, 3, 4, 5, 6]
    assert said(outcome) == [("info", "several_lists")]
    assert outcome.only("several_lists").message.startswith("3 lists stand one after another")


@pytest.mark.parametrize("end", ["", ",", "}", " , "])
def test_a_list_that_is_not_closed_may_be_cut(tmp_path: Path, end: str) -> None:
    outcome = reading(tmp_path, LIST[:-1] + end)
    assert len(outcome.rollouts) == 6
    assert said(outcome) == [("warning", "list_not_closed")]
    assert "after row 6" in outcome.only("list_not_closed").message
    assert "Upload the whole file again" in outcome.only("list_not_closed").message


def test_a_list_cut_inside_of_a_row_is_said_once(tmp_path: Path) -> None:
    outcome = reading(tmp_path, LIST[:-9])
    assert len(outcome.rollouts) == 5
    assert said(outcome) == [("error", "incomplete_row")]


@pytest.mark.parametrize(
    ("text", "row"), [(LIST[:-1] + ",]", 6), (LIST.replace("}, {", "},, {", 1), 1), (f"[,{LIST[1:]}", 0)]
)
def test_a_comma_without_a_row_is_said(tmp_path: Path, text: str, row: int) -> None:
    outcome = reading(tmp_path, text)
    if row:  # a list that begins with a comma is none of rows
        assert len(outcome.rollouts) == 6
        assert said(outcome) == [("warning", "no_row_at_comma")]
        assert f"after row {row} has no row" in outcome.only("no_row_at_comma").message
    else:
        assert "no row of it can be read" in outcome.sentence()


@pytest.mark.parametrize("behind", ["Traceback: [boom]", json.dumps(ROWS[0]), '"text"', "]"])
def test_what_follows_the_last_list_is_never_passed_over(tmp_path: Path, behind: str) -> None:
    outcome = reading(tmp_path, f"{LIST}\n{behind}\n")
    assert len(outcome.rollouts) == 6
    assert said(outcome) == [("error", "behind_the_list")]
    assert f"after row 6, was not read: {behind[:20]}" in outcome.only("behind_the_list").message


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_where_blocks_end_makes_no_difference(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    text = b'[{"a": "x\\\\"}, {"b": ["]", "\\""]} ,]\n [{"c": 1}]\nrest'
    found = list(lines.elements(BufferedReader(BytesIO(text)), 1 << 20))
    monkeypatch.setattr(lines, "BLOCK", block)
    again = list(lines.elements(BufferedReader(BytesIO(text)), 1 << 20))
    assert [(line.number, line.data) for line in again] == [(line.number, line.data) for line in found]
    assert [line.data for line in found if line.data] == [
        b'{"a": "x\\\\"}',
        b'{"b": ["]", "\\""]}',
        b'{"c": 1}',
    ]
    assert [line.fault.code for line in again if line.fault] == [
        "no_row_at_comma",
        "behind_the_list",
        "several_lists",
    ]


def test_a_table_in_a_cut_list_says_so_too(tmp_path: Path) -> None:
    rows = [{"Question": "q", "Answer of it": "a", "Completion": f"a{i}", "Score": i % 2} for i in range(4)]
    outcome = reading(tmp_path, json.dumps(rows)[:-1])
    assert len(outcome.rollouts) == 4
    assert outcome.only("list_not_closed").severity == "warning"


def test_an_empty_list_has_no_rows(tmp_path: Path) -> None:
    assert "an empty list: it has no rows" in reading(tmp_path, " [ ]\n").sentence()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('["q", "a", 1]\n["q", "b", 0]\n', "row 1 is not a JSON row (a JSON list, not an object): ["),
        ('{"response": "a"}{"response": "b"}', "more stands behind the object on its line"),
        ('{"response": "a"},\n{"response": "b"},\n', "more stands behind the object on its line"),
        ("{}\n{}\n", "the rows are empty objects: they have no response"),
        ("null", "a single JSON null"),
        ("5\n", "a single JSON number"),
    ],
)
def test_json_without_a_row_is_refused_with_its_reason(tmp_path: Path, text: str, part: str) -> None:
    assert part in reading(tmp_path, text).sentence()
