"""Rows as files: what is absent from some rows, and that a big batch is not held in memory."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from app import tabular
from app.errors import Unprocessable

HEADER = json.dumps({"_header": {"run": "r"}}).encode() + b"\n"


def lines(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    yield HEADER
    yield from (json.dumps(row).encode() + b"\n" for row in rows)


def test_an_npz_is_filled_where_rows_lack_a_field(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"response_ids": [1, 2], "step": 3, "response": "é", "rank": 0},
        {"response_ids": [3], "step": 3, "reward": 0.5, "response_mask": [0], "values": [0.25]},
        {"response_ids": [4, 5], "step": 4, "reward": None, "response": "four five", "extra": {"a": 1}},
        {"response_ids": [6], "step": 4, "values": [None], "_nonfinite": {"values": {"0": "Infinity"}}},
    ]
    path = tmp_path / "rows.npz"
    assert tabular.write(path, "npz", lines(rows)) == 4
    with np.load(path) as found:
        arrays = dict(found)
    expected = {
        "metadata": np.array('{"run": "r"}'),
        "response_offsets": np.array([0, 2, 3, 5, 6]),
        "response_ids": np.array([1, 2, 3, 4, 5, 6]),
        "response_mask": np.array([1, 1, 0, 1, 1, 1], np.uint8),
        "values": np.array([np.nan, np.nan, 0.25, np.nan, np.nan, np.inf]),
        "reward": np.array([np.nan, 0.5, np.nan, np.nan]),
        "step": np.array([3, 3, 4, 4]),
        "response": np.array(["é", "", "four five", ""]),
        "extra": np.array(["", "", '{"a": 1}', ""]),
    }
    assert arrays.keys() == expected.keys(), "rank is a whole number that three rows lack"
    for name, values in expected.items():
        assert arrays[name].dtype == values.dtype, name
        np.testing.assert_array_equal(arrays[name], values, err_msg=name)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.npz"]


def test_rows_without_tokens_are_no_npz(tmp_path: Path) -> None:
    with pytest.raises(Unprocessable, match="no tokens"):
        tabular.write(tmp_path / "rows.npz", "npz", lines([{"response": "r", "reward": 1.0}]))


def long_rows(count: int, tokens: int) -> Iterator[bytes]:
    yield HEADER
    values = (np.arange(tokens) / 8).tolist()
    for i in range(count):
        row = {"response": "x" * 100, "reward": float(i), "response_ids": list(range(tokens))}
        yield json.dumps(row | {"values": values}).encode() + b"\n"


def test_a_few_long_rows_are_a_part_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, tokens = 12, 1000
    monkeypatch.setattr(tabular, "VALUES", 8 * tokens)
    path = tmp_path / "rows.parquet"
    assert tabular.write(path, "parquet", long_rows(count, tokens)) == count
    with pq.ParquetFile(path) as file:
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 4]
        assert file.read(columns=["reward"])["reward"].to_pylist() == [float(i) for i in range(count)]


def test_an_npz_holds_a_row_at_a_time(tmp_path: Path) -> None:
    """However many rows there are, what Python and numpy hold at once stays the same."""
    peaks = []
    for count in (4, 32):
        tracemalloc.start()
        assert tabular.write(tmp_path / "rows.npz", "npz", long_rows(count, 1000)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    whole = 32 * 1000 * 2 * 8
    assert peaks[1] - peaks[0] < whole / 2
