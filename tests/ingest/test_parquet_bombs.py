"""Parquet files of a few kilobytes that would become gigabytes: refused before they do."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ingest.reading import read

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
WORD = "x" * 100_000
ROWS = 100
LISTS = pa.array([[WORD] * 500] * ROWS)
PREFIXED = {"use_dictionary": False, "compression": "zstd"}


def dictionary_typed() -> Any:
    keys = pa.array([0] * 500 * ROWS, pa.int32())
    inner = pa.DictionaryArray.from_arrays(keys, pa.array([WORD]))
    return pa.ListArray.from_arrays(pa.array(range(0, 500 * ROWS + 1, 500), pa.int32()), inner)


def structs() -> Any:
    offsets = pa.array(range(0, 500 * ROWS + 1, 500), pa.int32())
    parts = pa.StructArray.from_arrays([LISTS.values, LISTS.values], ["role", "content"])
    return pa.ListArray.from_arrays(offsets, parts)


def maps() -> Any:
    offsets = pa.array(range(0, 500 * ROWS + 1, 500), pa.int32())
    return pa.MapArray.from_arrays(offsets, LISTS.values, LISTS.values)


#: Name -> the column, and how it is written.
BOMBS: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "lists of a text": ("extra", lambda: LISTS, {}),
    "lists of a text, more rows": ("extra", lambda: pa.concat_arrays([LISTS] * 8), {}),
    "lists of bytes": ("extra", lambda: LISTS.cast(pa.list_(pa.binary())), {}),
    "lists of a dictionary type": ("extra", dictionary_typed, {}),
    "lists of lists": ("extra", lambda: pa.array([[[WORD] * 20] * 25] * ROWS), {}),
    "messages": ("prompt", structs, {}),
    "maps": ("extra", maps, {}),
    "one row": ("extra", lambda: pa.array([[WORD] * 50_000] + [[]] * (ROWS - 1)), {}),
    "bytes": ("extra", lambda: pa.array([WORD.encode() * 100] * 50_000), {}),
    "fixed width": (
        "extra", lambda: pa.array([WORD[:50_000].encode()] * 20_000, pa.binary(50_000)), {},
    ),
    "prefixes": (
        "response", lambda: pa.array([WORD * 4] * 2_000),
        {**PREFIXED, "column_encoding": {"response": "DELTA_BYTE_ARRAY"}},
    ),
    "prefixes in lists": (
        "extra", lambda: pa.array([[WORD * 10] * 20] * ROWS),
        {**PREFIXED, "column_encoding": {"extra.list.element": "DELTA_BYTE_ARRAY"}},
    ),
}  # fmt: skip

SCRIPT = """
import json, resource, sys, time
from pathlib import Path
from tests.ingest.reading import read
from app.errors import TooLarge

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

read(Path(sys.argv[1]))
for name in sys.argv[2:]:
    before, began = peak(), time.process_time()
    try:
        outcome = "read"
        read(Path(name))
    except TooLarge as error:
        outcome = error.detail
    print(json.dumps([outcome, peak() - before, time.process_time() - began]))
"""


def write(path: Path, name: str, values: Any, **options: Any) -> Path:
    plain = pa.array(["r"] * len(values))
    columns = {"prompt": plain, "response": plain, "reward": [0.5] * len(values)} | {name: values}
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_bombs_are_refused_at_once_and_cost_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(len(BOMBS))]
    for path, (name, make, options) in zip(paths, BOMBS.values(), strict=True):
        write(path, name, make(), **options)
        assert path.stat().st_size < 250_000, path
    honest = write(tmp_path / "honest.parquet", "extra", pa.array([["a", "b"]] * 10))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(honest), *map(str, paths)],
        capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = dict(zip(BOMBS, map(json.loads, done.stdout.splitlines()), strict=True))
    for bomb, (outcome, memory, seconds) in found.items():
        assert "limit" in outcome, (bomb, outcome)
        assert memory < 200 * MIB, (bomb, memory / MIB)
        assert seconds < 1.0, (bomb, seconds)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_honest_files_in_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    columns = {
        "prompt": ["p"] * 10, "response": [f"answer {n}" for n in range(10)], "reward": [0.5] * 10,
        "tags": [["even", f"number {n}"] for n in range(10)],
    }  # fmt: skip
    path = tmp_path / "a.parquet"
    encodings = {"response": encoding, "tags.list.element": encoding}
    pq.write_table(pa.table(columns), path, use_dictionary=False, column_encoding=encodings)
    rollouts = read(path).rollouts
    assert [rollout.response for rollout in rollouts] == columns["response"]
    assert [rollout.extra["tags"] for rollout in rollouts] == columns["tags"]


def test_what_repeats_much_but_not_too_much_is_read_in_parts(tmp_path: Path) -> None:
    words = [f"{n % 7}" * 20_000 for n in range(8)]
    rows = [{"role": words[n % 8], "tags": [words[n % 3]] * 20} for n in range(400)]
    path = write(tmp_path / "a.parquet", "note", pa.array(rows), compression="none")
    with open(path, "ab"):
        pass
    rollouts = read(path, max_expansion_ratio=10_000).rollouts
    assert [rollout.extra["note"] for rollout in rollouts] == rows
