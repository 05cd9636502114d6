"""Binary containers that people send whole: their hostile, older and unfinished kinds."""

import gzip
import json
import sqlite3
import struct
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather

from app.errors import TooLarge
from app.settings import Settings
from tests.ingest.reading import SAMPLES, read, sample

EVAL = SAMPLES / "inspect_ai/toy_math.eval"
GROUP = "- metadata: {}\n  trajectories:\n  - reward: 1.0\n    messages_and_choices:\n"
MESSAGES = "    - {role: user, content: q}\n    - {role: assistant, content: a}\n"


def yaml_file(folder: Path, text: str) -> Path:
    path = folder / "0003.yaml"
    path.write_text(text)
    return path


def test_plain_yaml_is_read(tmp_path: Path) -> None:
    (rollout,) = read(yaml_file(tmp_path, GROUP + MESSAGES)).rollouts
    assert (rollout.step, rollout.reward, rollout.response) == (3, 1.0, "a")


@pytest.mark.parametrize(
    ("before", "part"),
    [
        ("- &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"- &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ), "aliases make it far larger"),
        ("- &a [*a]\n", "part of"),
        ("- &a {x: &b [*a, *b]}\n", "part of"),
        ("- !!python/object/apply:os.system [true]\n", "YAML"),
        ("- &m {a: 1}\n- {<<: *m}\n", "merge keys"),
        ("- " + "[" * 500 + "]" * 500 + "\n", "nested deeper"),
        ("- {a: " + "9" * 5000 + "}\n", "YAML"),
        ("- 'open\n", "YAML"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_refused(before: str, part: str, tmp_path: Path) -> None:
    assert part in read(yaml_file(tmp_path, before + GROUP + MESSAGES)).sentence()


def database(folder: Path, *statements: str) -> Path:
    path = folder / "toy.db"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


COLUMNS = "(id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT)"
TABLE = {"_type": "trackio.table", "_value": [{"prompt": "p", "completion": "c", "advantage": 0.5}]}


def test_several_runs_of_a_database_have_a_header_each(tmp_path: Path) -> None:
    metric = json.dumps({"completions": TABLE, "loss": 1})
    path = database(
        tmp_path, f"CREATE TABLE metrics {COLUMNS}",
        f"INSERT INTO metrics VALUES (1, 'a', 1, '{metric}'), (2, 'b', 1, '{metric}')",
        "INSERT INTO metrics VALUES (3, 'b', 2, 'no json')",
    )  # fmt: skip
    outcome = read(path, duplicates="keep")
    assert [header.run for header in outcome.headers] == ["a", "b"]
    assert [rollout.step for rollout in outcome.rollouts] == [1, 1]
    assert outcome.only("not_json")


def test_a_view_is_no_table_of_metrics(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x"
    view = f"CREATE VIEW metrics AS {endless} AS run_name, x AS step, x AS metrics FROM c"
    assert "none of Trackio's" in read(database(tmp_path, view)).sentence()


def test_the_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "toy.db"
    path.write_bytes((SAMPLES / "trackio/toy.db").read_bytes())
    before = path.stat().st_mtime_ns, path.read_bytes()
    read(path)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert [one.name for one in tmp_path.iterdir()] == ["toy.db"]


def repacked(folder: Path, method: int, leave_out: str = "", extra: tuple[str, bytes] | None = None) -> Path:
    """The log with its members packed in another way."""
    path = folder / "again.eval"
    with zipfile.ZipFile(EVAL) as archive, zipfile.ZipFile(path, "w", method) as out:
        for info in archive.infolist():
            raw = EVAL.read_bytes()
            name, more = struct.unpack("<HH", raw[info.header_offset + 26 : info.header_offset + 30])
            start = info.header_offset + 30 + name + more
            data = (
                zstandard.ZstdDecompressor()
                .decompressobj()
                .decompress(raw[start : start + info.compress_size])
            )
            if info.filename != leave_out:
                out.writestr(info.filename, data)
        if extra is not None:
            out.writestr(*extra)
    return path


def test_logs_of_older_releases_give_the_same(tmp_path: Path) -> None:
    new = sample("inspect_ai/toy_math.eval").rollouts
    old = read(repacked(tmp_path, zipfile.ZIP_DEFLATED)).rollouts
    assert [one.digest for one in old] == [one.digest for one in new]
    assert [one.response for one in new] == [
        one.response for one in sample("inspect_ai/toy_math_log.json").rollouts
    ]


def test_a_sample_that_is_no_json_costs_its_row_only(tmp_path: Path) -> None:
    outcome = read(repacked(tmp_path, zipfile.ZIP_DEFLATED, "", ("samples/bad_epoch_1.json", b'{"id": ')))
    assert len(outcome.rollouts) == 16
    assert outcome.errors == [17]


def test_an_unfinished_log_is_said_to_be_one(tmp_path: Path) -> None:
    outcome = read(repacked(tmp_path, zipfile.ZIP_DEFLATED, "header.json"))
    assert len(outcome.rollouts) == 16
    assert "not finished" in outcome.only("not_finished").message


def test_a_bomb_in_a_log_is_stopped(tmp_path: Path) -> None:
    bomb = ("samples/x_epoch_1.json", b'{"id": "' + b"a" * (40 << 20) + b'"}')
    with pytest.raises(TooLarge):
        read(
            repacked(tmp_path, zipfile.ZIP_DEFLATED, "", bomb), settings=Settings(max_expanded_bytes=32 << 20)
        )


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_files_are_read(compression: str, tmp_path: Path) -> None:
    rows = {"response": ["a", "b"], "reward": [1.0, None], "advantages": [[0.5, float("nan")], []]}
    feather.write_feather(pa.table(rows), str(tmp_path / "rows.feather"), compression=compression)
    first, second = read(tmp_path / "rows.feather").rollouts
    assert (first.response, first.reward, second.reward) == ("a", 1.0, None)
    assert first.tokens["advantages"][0] == 0.5 and np.isnan(first.tokens["advantages"][1])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_table_is_judged_by_what_it_declares(compression: str, tmp_path: Path) -> None:
    table = pa.table({"response": ["a" * (40 << 20)], "reward": [1.0]})
    feather.write_feather(table, str(tmp_path / "bomb.feather"), compression=compression)
    with pytest.raises(TooLarge):
        read(tmp_path / "bomb.feather", settings=Settings(max_expanded_bytes=32 << 20))
    with pytest.raises(TooLarge):
        read(tmp_path / "bomb.feather", settings=Settings(max_expansion_ratio=100))


def test_a_cut_stream_keeps_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "data.arrow"
    table = pa.table({"response": [f"r{i}" for i in range(100)], "reward": [float(i) for i in range(100)]})
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    path.write_bytes(path.read_bytes()[:-700])
    outcome = read(path)
    assert len(outcome.rollouts) >= 10
    assert "damaged after row" in outcome.problems[0].message


def packed(folder: Path, name: str, value: Any) -> Path:
    path = folder / "step_3" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.msgpack.encode(value))
    return path


IDS, MASK, ADVANTAGES, LOG_PROBS = [1, 2, 3, 4, 5], [False, True, False, True, True], [0.5] * 5, [-1.0] * 5
MICRO = [IDS, MASK, ADVANTAGES, LOG_PROBS]


@pytest.mark.parametrize(
    "micro",
    [
        [*MICRO, [0, 1, 0, 1, 2]],
        [*MICRO, [0, 1, 0, 1, 2], [1.0] * 5, ["env"] * 5],
        [*MICRO, [0, 1, 2, 3, 4], [2, 3], [1.0] * 5, ["env"] * 5],
        [*MICRO, [0, 1, 0, 1, 2], 1.0, None, [5]],
    ],
)
def test_micro_batches_of_every_version(micro: list[Any], tmp_path: Path) -> None:
    path = packed(tmp_path, "rank_2.bin", [micro])
    first, second = read(path, names=["step_3/rank_2.bin"]).rollouts
    assert [one.tokens["response_ids"].tolist() for one in (first, second)] == [[2], [4, 5]]
    assert (first.step, first.rank, second.micro_batch) == (3, 2, 0)
    assert first.prompt_ids is not None and first.prompt_ids.tolist() == [1]


@pytest.mark.parametrize(
    "record",
    [
        [[1], [False], [2, 3], [True, True], [-1.0, -2.0], 0.5],
        [[1], [False], [2, 3], [True, True], [-1.0, -2.0], None, 0.5, 1.0],
        [[1], [False], [2, 3], [True, True], [-1.0, -2.0], [1.0, 1.0], "env", None, 0.5, 1.0],
        [[1, 2, 3], [False, True, True], [0.0, -1.0, -2.0], [1.0] * 3, "env"],
    ],
)
def test_samples_of_every_version(record: list[Any], tmp_path: Path) -> None:
    path = packed(tmp_path, "rollouts.bin", [[record], 3])
    (rollout,) = read(path, names=["step_3/rollouts.bin"]).rollouts
    assert rollout.tokens["response_ids"].tolist() == [2, 3]
    assert rollout.tokens["rollout_log_probs"].tolist() == [-1.0, -2.0]
    assert rollout.advantage == (None if len(record) == 5 else 0.5)


def test_a_list_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank_0.bin"
    path.write_bytes(b"\xdd\xff\xff\xff\xff" + b"\x95" + b"\xdd\xff\xff\xff\xff" + b"\x01" * 50)
    assert "transport file of prime-rl" in read(path).sentence()


def test_a_folder_with_a_part_missing_says_which(tmp_path: Path) -> None:
    folder = SAMPLES / "torchrl_memmap"
    paths = [path for path in sorted(folder.iterdir()) if path.name != "advantages.memmap"]
    outcome = read(*paths, names=[f"mm/{path.name}" for path in paths])
    assert len(outcome.rollouts) == 8
    assert "advantages.memmap is not in the upload" in outcome.only("missing_files").message
    short = tmp_path / "response_ids.memmap"
    short.write_bytes(b"\0" * 8)
    paths = [folder / "meta.json", short]
    outcome = read(*paths, names=[f"mm/{path.name}" for path in paths])
    assert any("its storage holds 8" in problem.message for problem in outcome.problems)
    parts = [folder / "reward.memmap"]
    assert "Upload the whole folder" in read(*parts).sentence()


@pytest.mark.parametrize("size", [7, 9, 9999999999999999999999999])
def test_a_folder_that_says_another_number_of_rows_is_refused(size: int, tmp_path: Path) -> None:
    """Its rows would hold nothing, and a huge number of them would never end."""
    folder = SAMPLES / "torchrl_memmap"
    meta = tmp_path / "meta.json"
    said = json.loads((folder / "meta.json").read_bytes())
    meta.write_text(json.dumps(said | {"shape": [size]}))
    paths = [meta, *(path for path in sorted(folder.iterdir()) if path.name != "meta.json")]
    outcome = read(*paths, names=[f"mm/{path.name}" for path in paths])
    assert not outcome.rollouts
    told = str(size) if size < 10 else "more than a million million"
    assert f"its meta.json says {told} rows, and none of its arrays has as many" in outcome.sentence()


def test_a_packed_part_of_a_folder_is_there_when_it_is_needed(tmp_path: Path) -> None:
    """It is expanded to a file of its own where its first byte looks like that of a format with seeking."""
    folder = SAMPLES / "torchrl_memmap"
    packed = tmp_path / "response_ids.memmap.gz"
    packed.write_bytes(gzip.compress(b"\x91" + (folder / "response_ids.memmap").read_bytes()[1:]))
    paths = [packed, *(path for path in sorted(folder.iterdir()) if path.name != "response_ids.memmap")]
    outcome = read(*paths, names=[f"mm/{path.name}" for path in paths])
    ids = outcome.rollouts[0].tokens["response_ids"]
    assert len(outcome.rollouts) == 8 and int(ids[0]) & 0xFF == 0x91


def test_an_inspect_log_without_its_beginning_is_damaged_member_by_member(tmp_path: Path) -> None:
    path = tmp_path / "cut.eval"
    data = EVAL.read_bytes()
    with zipfile.ZipFile(EVAL) as archive:
        directory = archive.start_dir
    path.write_bytes(data[:100] + data[directory - 100 :])
    outcome = read(path)
    assert not outcome.rollouts
    assert "damaged" in outcome.sentence() and "Errno" not in outcome.sentence()
