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

from app.settings import Settings
from tests.ingest.reading import read

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
WORD = "x" * 100_000
ROWS, EACH = 100, 500
PREFIXED = {"use_dictionary": False, "compression": "zstd"}


def same(count: int, word: str | bytes = WORD, kind: Any = None) -> Any:
    """The word so many times, in next to no memory."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([word], kind))


def offsets(count: int, each: int) -> Any:
    return pa.array(range(0, count * each + 1, each), pa.int32())


def lists(inner: Any, rows: int = ROWS) -> Any:
    return pa.ListArray.from_arrays(offsets(rows, len(inner) // rows), inner)


def structs() -> Any:
    words = same(ROWS * EACH)
    return lists(pa.StructArray.from_arrays([words, words], ["role", "content"]))


def maps() -> Any:
    words = same(ROWS * EACH)
    keys = pa.array([f"k{n}" for n in range(len(words))])
    return pa.MapArray.from_arrays(offsets(ROWS, EACH), keys, words)


def dictionary_typed() -> Any:
    return lists(same(ROWS * EACH))


def views() -> Any:
    """Every value is the same place in the same memory."""
    first = pa.array([WORD], pa.string_view())
    heads = pa.py_buffer(first.buffers()[1].to_pybytes() * EACH * ROWS)
    buffers = [None, heads, *first.buffers()[2:]]
    return lists(pa.Array.from_buffers(pa.string_view(), EACH * ROWS, buffers))


def list_views() -> Any:
    """Every row is the same list."""
    words = pa.array(["word " * 20] * 5000)
    starts = pa.array([0] * ROWS, pa.int32())
    return pa.ListViewArray.from_arrays(starts, pa.array([5000] * ROWS, pa.int32()), words)


def feather(path: Path, values: Any) -> Path:
    plain = pa.array(["r"] * len(values))
    columns = {"prompt": plain, "response": plain, "reward": pa.array([0.5] * len(values)), "extra": values}
    table = pa.table(columns)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return path


#: Name -> the column, and how it is written. The dictionary is a matter of the file, unless its schema is
#: stored.
BOMBS: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "lists of a text": ("extra", lambda: lists(same(ROWS * EACH)), {}),
    "lists of a text, more rows": ("extra", lambda: lists(same(ROWS * EACH * 8), ROWS * 8), {}),
    "lists of bytes": ("extra", lambda: lists(same(ROWS * EACH, WORD.encode())), {}),
    "lists of a dictionary type": ("extra", dictionary_typed, {"store_schema": True}),
    "lists of views": ("extra", views, {"store_schema": True}),
    "lists of lists": ("extra", lambda: lists(lists(same(ROWS * EACH), ROWS * 20)), {}),
    "messages": ("prompt", structs, {}),
    "maps": ("extra", maps, {}),
    "one row": ("extra", lambda: pa.ListArray.from_arrays(
        pa.array([0] + [50_000] * ROWS, pa.int32()), same(50_000)), {}),
    "bytes": ("extra", lambda: same(50_000, WORD.encode() * 10), {}),
    "fixed width": ("extra", lambda: same(20_000, WORD[:50_000].encode(), pa.binary(50_000)), {}),
    "prefixes": (
        "response", lambda: pa.array([WORD] * 2_000),
        {**PREFIXED, "column_encoding": {"response": "DELTA_BYTE_ARRAY"}},
    ),
    "prefixes in lists": (
        "extra", lambda: pa.array([[WORD] * 20] * ROWS),
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
        outcome = f"read: {[problem.message for problem in read(Path(name)).problems]}"
    except TooLarge as error:
        outcome = error.detail
    print(json.dumps([outcome, peak() - before, time.process_time() - began]))
"""


def write(path: Path, name: str, values: Any, **options: Any) -> Path:
    plain = pa.array(["r"] * len(values))
    columns = {"prompt": plain, "response": plain, "reward": [0.5] * len(values)} | {name: values}
    pq.write_table(pa.table(columns), path, **{"store_schema": False, **options})
    return path


def test_bombs_are_refused_at_once_and_cost_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(len(BOMBS))]
    for path, (name, make, options) in zip(paths, BOMBS.values(), strict=True):
        write(path, name, make(), **options)
        assert path.stat().st_size < 500_000, path
    tables = {"lists of a dictionary type": dictionary_typed, "views": views, "list views": list_views}
    for name, make in tables.items():
        paths.append(feather(tmp_path / f"{name}.arrow", make()))
    honest = write(tmp_path / "honest.parquet", "extra", pa.array([["a", "b"]] * 10))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(honest), *map(str, paths)],
        capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    names = [*BOMBS, *tables]
    found = dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))
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
    rollouts = read(path, settings=Settings(max_expansion_ratio=10_000)).rollouts
    assert [rollout.extra["note"] for rollout in rollouts] == rows
