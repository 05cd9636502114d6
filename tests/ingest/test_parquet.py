"""Parquet of our own schema and of others: types, nulls, damage, and files that claim too much."""

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import TooLarge
from app.settings import Settings
from storage.arrays import is_missing
from tests.ingest.reading import SAMPLES, Outcome, read


def written(folder: Path, table: Any, name: str = "batch.parquet", **options: Any) -> Path:
    pq.write_table(table, folder / name, **options)
    return folder / name


def loaded(folder: Path, columns: dict[str, Any]) -> Outcome:
    return read(written(folder, pa.table({"response": ["a", "b"]} | columns)))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.float64(), np.float64),
        (pa.float32(), np.float32),
        (pa.float16(), np.float32),
        (pa.int32(), np.float64),
    ],
)
@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_lists_of_every_number_type(kind: Any, dtype: Any, make: Any, tmp_path: Path) -> None:
    rows = [[np.float16(1.0), np.float16(0.0)], []] if kind == pa.float16() else [[1, 0], []]
    outcome = loaded(tmp_path, {"values": pa.array(rows, make(kind))})
    first, second = outcome.rollouts
    assert first.tokens["values"].tolist() == [1.0, 0.0]
    assert first.tokens["values"].dtype == dtype
    assert second.tokens["values"].size == 0


def test_masks_may_be_boolean_and_numbers_may_not(tmp_path: Path) -> None:
    truths = pa.array([[True, False], [True]], pa.list_(pa.bool_()))
    outcome = loaded(tmp_path, {"response_mask": truths, "values": truths})
    assert outcome.rollouts[0].tokens["response_mask"].tolist() == [1, 0]
    assert "values" not in outcome.rollouts[0].tokens
    assert "true and false" in outcome.said("unusable_values")[0].message


def test_null_lists_and_nulls_in_lists_and_nan(tmp_path: Path) -> None:
    rows = pa.array([None, [1.0, None, float("nan")]], pa.list_(pa.float32()))
    first, second = loaded(tmp_path, {"values": rows}).rollouts
    assert "values" not in first.tokens
    values = second.tokens["values"]
    assert is_missing(values).tolist() == [False, True, False]
    assert np.isnan(values[2])


def test_every_row_owns_its_memory(tmp_path: Path) -> None:
    rows = pa.array([[float(i)] * 100 for i in range(2)], pa.list_(pa.float32()))
    for rollout in loaded(tmp_path, {"values": rows}).rollouts:
        assert rollout.tokens["values"].base is None


def test_nested_lists_and_texts_are_left_out(tmp_path: Path) -> None:
    outcome = loaded(tmp_path, {"values": [[[1.0]], [[2.0]]], "advantages": [["x"], ["y"]]})
    assert all(rollout.tokens == {} for rollout in outcome.rollouts)
    assert {problem.field for problem in outcome.said("unusable_values")} == {"values", "advantages"}


def test_columns_that_are_not_mapped_are_kept(tmp_path: Path) -> None:
    first, second = loaded(
        tmp_path, {"acc": [0.5, None], "tags": [["x"], None], "level": ["easy", "hard"]}
    ).rollouts
    assert first.extra == {"acc": 0.5, "tags": ["x"], "level": "easy"}
    assert second.extra == {"level": "hard"}


def test_messages_lose_the_empty_keys_that_parquet_added(tmp_path: Path) -> None:
    messages = [
        [{"role": "user", "content": "q", "name": None}],
        [{"role": "user", "content": "q", "name": "n"}],
    ]
    first, second = loaded(tmp_path, {"prompt": messages}).rollouts
    assert first.prompt_messages == [{"role": "user", "content": "q"}]
    assert second.prompt_messages == [{"role": "user", "content": "q", "name": "n"}]


def test_several_row_groups_are_one_file(tmp_path: Path) -> None:
    table = pa.table(
        {"response": [str(index) for index in range(1000)], "values": [[float(i)] for i in range(1000)]}
    )
    outcome = read(written(tmp_path, table, row_group_size=70))
    assert [rollout.response for rollout in outcome.rollouts] == [str(index) for index in range(1000)]
    assert [rollout.tokens["values"][0] for rollout in outcome.rollouts] == list(range(1000))
    assert [rollout.row for rollout in outcome.rollouts] == list(range(1, 1001))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_of_every_type(kind: Any, tmp_path: Path) -> None:
    outcome = read(
        written(tmp_path, pa.table({"response": pa.array(["a", None, "a"], kind), "response_ids": [[1]] * 3}))
    )
    assert [rollout.response for rollout in outcome.rollouts] == ["a", None, "a"]


def test_damage_in_the_middle_keeps_the_rows_before_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"response": ["r"] * 800, "values": [rng.random(20) for _ in range(800)]})
    path = written(tmp_path, table, row_group_size=200, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20_000] = b"\xff" * 20_000
    path.write_bytes(bytes(data))
    outcome = read(path)
    assert 0 < len(outcome.rollouts) < 800
    problem = outcome.only("parquet_damaged")
    assert (problem.severity, problem.row) == ("error", None)
    assert "rows before it stand" in problem.message


@pytest.mark.parametrize("cut", [1, 4, 5, 100, 3000])
def test_a_cut_file_is_said(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "batch.parquet"
    path.write_bytes((SAMPLES / "canonical/batch.parquet").read_bytes()[:-cut])
    assert "parquet footer missing; the copy is incomplete" in read(path).sentence()


def test_a_damaged_footer_is_said(tmp_path: Path) -> None:
    data = (SAMPLES / "canonical/batch.parquet").read_bytes()
    path = tmp_path / "batch.parquet"
    path.write_bytes(data[:-200] + b"\xff" * 192 + data[-8:])
    assert "footer is damaged" in read(path).sentence()


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays(
        [pa.array(["a"]), pa.array([1.0]), pa.array([2.0])], names=["response", "reward", "reward"]
    )
    outcome = read(written(tmp_path, table))
    assert "column reward is there twice" in outcome.sentence()


def test_texts_that_repeat_without_end_stop_at_the_ratio(tmp_path: Path) -> None:
    huge = pa.array(["x" * 1_000_000] * 40).dictionary_encode()
    with pytest.raises(TooLarge, match="times its compressed size"):
        read(written(tmp_path, pa.table({"response": huge})))


def test_a_prompt_that_repeats_is_no_bomb(tmp_path: Path) -> None:
    prompts = pa.array(["x" * 100_000] * 500).dictionary_encode()
    outcome = read(written(tmp_path, pa.table({"response": ["a"] * 500, "prompt": prompts})))
    assert len(outcome.rollouts) == 500
    assert len({id(rollout.prompt) for rollout in outcome.rollouts}) <= 2  # the text itself is shared


def test_numbers_that_repeat_without_end_are_refused_before_reading(tmp_path: Path) -> None:
    values = pa.array([np.zeros(1_000_000, np.float32)] * 20, pa.list_(pa.float32()))
    with pytest.raises(TooLarge, match="times its compressed size"):
        read(written(tmp_path, pa.table({"response": ["a"] * 20, "values": values})))


def test_texts_in_lists_that_repeat_without_end_stop_at_the_ratio(tmp_path: Path) -> None:
    messages = [[{"role": "user", "content": "x" * 1_000_000}]] * 40
    with pytest.raises(TooLarge, match="times its compressed size"):
        read(written(tmp_path, pa.table({"response": ["a"] * 40, "messages": messages})))


def test_declared_rows_are_limited_before_reading(tmp_path: Path) -> None:
    path = written(tmp_path, pa.table({"response": ["a"] * 20}))
    with pytest.raises(TooLarge, match=r"declares 20 rows; at most 10 .*VANTAGE_MAX_ROWS"):
        read(path, settings=Settings(max_rows=10))


def test_metadata_that_is_no_json_is_said(tmp_path: Path) -> None:
    table = pa.table({"response": ["a"]}).replace_schema_metadata({"rollout_batch": "{"})
    outcome = read(written(tmp_path, table))
    assert outcome.only("bad_metadata").severity == "warning"
    assert len(outcome.rollouts) == 1


def test_columns_that_json_has_no_words_for_are_kept_in_its_words(tmp_path: Path) -> None:
    """A time, a decimal or bytes beside the rollouts must not stop the rest from being stored."""
    when = pa.array([1_767_225_600_000_000_001, None], pa.timestamp("ns"))
    columns = {
        "when": when,
        "day": [date(2026, 1, 1), None],
        "took": [timedelta(seconds=3), None],
        "price": pa.array([Decimal("1.10"), Decimal("2.00")], pa.decimal128(9, 2)),
        "long": pa.array([Decimal("0.12345678901234567890123"), None], pa.decimal128(38, 23)),
        "raw": [b"text", b"\xff\x00"],
        "nested": [{"day": [date(2026, 1, 1)], "n": 1}, None],
    }
    first, second = loaded(tmp_path, columns | {"group_id": [b"\xff", b"a"]}).rollouts
    assert first.extra == {
        "when": "2026-01-01 00:00:00.000000001", "day": "2026-01-01", "took": "0:00:03", "price": 1.1,
        "long": "0.12345678901234567890123", "raw": "text", "nested": {"day": ["2026-01-01"], "n": 1},
        "group_id_type": "object",
    }  # fmt: skip
    assert second.extra == {"price": 2, "raw": {"bytes": "ff00"}}
    assert (first.group_id, second.group_id) == ('{"bytes": "ff"}', "a")
    json.dumps([first.extra, second.extra])


def test_a_decimal_reward_is_a_number(tmp_path: Path) -> None:
    rewards = pa.array([Decimal("0.10"), Decimal("-3.00")], pa.decimal128(9, 2))
    outcome = loaded(tmp_path, {"reward": rewards})
    assert [rollout.reward for rollout in outcome.rollouts] == [0.1, -3.0]


def test_bytes_that_are_no_text_are_no_response(tmp_path: Path) -> None:
    outcome = read(written(tmp_path, pa.table({"response": [b"\xff\xfe", b"b"], "reward": [0.0, 1.0]})))
    assert [rollout.response for rollout in outcome.rollouts] == ["b"]
    assert outcome.errors == [1]
