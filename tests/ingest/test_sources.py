"""Compression and archives: undone in a stream, within limits, with safe names; what is broken is said."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from app.errors import TooLarge
from app.ingest import File, Problem, Source, unwrap
from app.ingest.archives import safe_name
from app.settings import Settings
from tests.ingest.reading import SAMPLES, Outcome, read

ROW = b'{"response": "a", "reward": 1, "group_id": "g", "sample_index": %d}\n'
ROWS = b"".join(ROW % index for index in range(50))


def written(folder: Path, data: bytes, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def zipped(folder: Path, members: dict[str, bytes], name: str = "files.zip") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        gzip.compress(ROWS),
        gzip.compress(ROWS[: len(ROWS) // 2]) + gzip.compress(ROWS[len(ROWS) // 2 :]),
        gzip.compress(ROWS) + b"\0" * 512,
        zstandard.compress(ROWS),
        zstandard.compress(ROWS[:100]) + zstandard.compress(ROWS[100:]),
        zstandard.ZstdCompressor(write_content_size=False).compress(ROWS),
        gzip.compress(zstandard.compress(ROWS)),
    ],
    ids=["plain", "gzip", "two gzip members", "zero padding", "zstd", "two frames", "no size", "twice"],
)
def test_every_row_comes_out(data: bytes, tmp_path: Path) -> None:
    outcome = read(written(tmp_path, data))
    assert len(outcome.rollouts) == 50
    assert outcome.problems == []


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_cut_stream_keeps_the_rows_before_the_cut(compress: object, tmp_path: Path) -> None:
    assert callable(compress)
    noise = b"".join(ROW % (index * 7919 % 10007) for index in range(5000))
    data = compress(noise)
    outcome = read(written(tmp_path, data[: len(data) // 2]))
    assert 0 < len(outcome.rollouts) < 5000
    assert "ends early" in outcome.only("damaged_stream").message


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_damaged_stream_is_said(compress: object, tmp_path: Path) -> None:
    assert callable(compress)
    data = bytearray(compress(b"".join(ROW % (index * 7919 % 10007) for index in range(5000))))
    data[len(data) // 2 : len(data) // 2 + 64] = b"\xff" * 64
    outcome = read(written(tmp_path, bytes(data)))
    assert "compressed data" in outcome.only("damaged_stream").message


def test_something_behind_the_compressed_data_is_said(tmp_path: Path) -> None:
    outcome = read(written(tmp_path, gzip.compress(ROWS) + b"garbage"))
    assert "something other than compressed data" in outcome.only("damaged_stream").message


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_bombs_stop_at_the_ratio(compress: object, tmp_path: Path) -> None:
    assert callable(compress)
    bomb = written(tmp_path, compress(b"\n" * (64 << 20)))
    with pytest.raises(TooLarge, match="times its compressed size"):
        read(bomb)


def test_bombs_stop_at_the_size(tmp_path: Path) -> None:
    settings = Settings(max_expanded_bytes=1000)
    with pytest.raises(TooLarge, match=r"1,000 bytes \(VANTAGE_MAX_EXPANDED_BYTES\)"):
        read(written(tmp_path, gzip.compress(ROWS)), settings=settings)
    with pytest.raises(TooLarge, match="VANTAGE_MAX_EXPANDED_BYTES"):
        read(zipped(tmp_path, {"a.jsonl": ROWS, "b.jsonl": ROWS}), settings=settings)
    assert len(read(written(tmp_path, ROWS), settings=settings).rollouts) == 50  # nothing was expanded


def test_looking_twice_at_a_file_is_counted_once(tmp_path: Path) -> None:
    settings = Settings(max_expanded_bytes=len(ROWS))
    assert len(read(written(tmp_path, gzip.compress(ROWS)), settings=settings).rollouts) == 50


def test_a_claimed_size_does_not_help_a_bomb(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"rows.jsonl": b"\n" * (64 << 20)})
    data = bytearray(path.read_bytes())
    claimed = (1000).to_bytes(4, "little")
    central = data.rindex(b"PK\x01\x02")
    data[22:26] = claimed
    data[central + 24 : central + 28] = claimed
    path.write_bytes(bytes(data))
    outcome = read(path)  # the member ends where it claims to: nothing more is expanded
    assert outcome.rollouts == []
    assert outcome.errors == [None]


def test_members_are_files_of_their_own(tmp_path: Path) -> None:
    verl = (SAMPLES / "verl/v0_rollout_data_dir/1.jsonl").read_bytes()
    parquet = (SAMPLES / "canonical/batch.parquet").read_bytes()
    path = zipped(
        tmp_path,
        {
            "run/train/1.jsonl": verl,
            "run/batch.parquet": parquet,
            "run/rows.jsonl.gz": gzip.compress(ROWS),
            "run/readme.txt": b"hello\n",
            "__MACOSX/run/._1.jsonl": b"junk",
            "run/.DS_Store": b"junk",
            "run/empty/": b"",
        },
    )
    outcome = read(path)
    formats = [(header.file, header.format) for header in outcome.headers]
    assert formats == [
        ("run/train/1.jsonl", "verl-jsonl"),
        ("run/batch.parquet", "canonical-parquet"),
        ("run/rows.jsonl", "canonical-jsonl"),
    ]
    assert len(outcome.rollouts) == 16 + 16 + 50
    assert {rollout.file for rollout in outcome.rollouts} == {file for file, _ in formats}
    (refused,) = [problem for problem in outcome.problems if problem.severity == "error"]
    assert (refused.file, refused.row) == ("run/readme.txt", None)


def test_packed_files_that_must_seek_leave_nothing_behind(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    settings = Settings(data_dir=tmp_path)
    for name in ("batch.parquet", "batch.npz", "batch.safetensors"):
        packed = written(tmp_path, gzip.compress((SAMPLES / "canonical" / name).read_bytes()), name + ".gz")
        assert len(read(packed, settings=settings).rollouts) == 16
        packed = zipped(tmp_path, {name: (SAMPLES / "canonical" / name).read_bytes()})
        assert len(read(packed, settings=settings).rollouts) == 16
        assert list(spool.iterdir()) == []


def test_a_zip_inside_gzip_and_a_zip_inside_a_zip_are_read(tmp_path: Path) -> None:
    inner = zipped(tmp_path, {"rows.jsonl": ROWS}).read_bytes()
    assert len(read(written(tmp_path, gzip.compress(inner))).rollouts) == 50
    assert len(read(zipped(tmp_path, {"inner.zip": inner}, "outer.zip")).rollouts) == 50


def test_wrapping_without_end_is_refused(tmp_path: Path) -> None:
    data = ROWS
    for _ in range(5):
        data = gzip.compress(data)
    assert "packed 3 times over" in read(written(tmp_path, data)).sentence()


def test_encrypted_and_unknown_members_are_said(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"rows.jsonl": ROWS})
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 8] |= 1
    path.write_bytes(bytes(data))
    assert "encrypted" in read(path).sentence()
    data[central + 8] &= 0xFE
    data[central + 10] = 93
    path.write_bytes(bytes(data))
    assert "compression method 93" in read(path).sentence()


def test_an_archive_without_files_is_said(tmp_path: Path) -> None:
    assert "archive without files" in read(zipped(tmp_path, {"folder/": b""})).sentence()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/root/a.jsonl", "root/a.jsonl"),
        ("C:\\data\\a.jsonl", "data/a.jsonl"),
        ("a/./b//c.jsonl", "a/b/c.jsonl"),
        ("a\x00b\x1b[31m.jsonl", "ab[31m.jsonl"),
        ("..", "file"),
        ("\u202ea.jsonl", "a.jsonl"),
        ("x" * 300, "x" * 255),
    ],
)
def test_names_of_members_are_safe(name: str, shown: str) -> None:
    assert safe_name(name) == shown


def positions(path: Path) -> Iterator[int]:
    for source in unwrap(File(path, path.name), Settings()):
        assert isinstance(source, Source)
        with source.open() as stream:
            while stream.read(1 << 16):
                yield source.position()


@pytest.mark.parametrize("pack", ["plain", "gzip", "zip"])
def test_progress_counts_bytes_of_the_file_as_sent(pack: str, tmp_path: Path) -> None:
    data = b"".join(ROW % (index * 7919 % 10007) for index in range(100_000))
    if pack == "zip":
        path = zipped(tmp_path, {"a.jsonl": data})
    else:
        path = written(tmp_path, gzip.compress(data, 1) if pack == "gzip" else data)
    found = list(positions(path))
    size = path.stat().st_size
    assert found == sorted(found)
    assert size * 0.95 <= found[-1] <= size
    assert any(size * 0.3 < position < size * 0.7 for position in found)


def test_a_source_can_be_opened_again(tmp_path: Path) -> None:
    (source,) = unwrap(File(written(tmp_path, gzip.compress(ROWS)), "rows.jsonl.gz"), Settings())
    assert isinstance(source, Source)
    assert source.name == "rows.jsonl"
    for _ in range(2):
        with source.open() as stream:
            assert stream.read() == ROWS


def test_nothing_in_a_damaged_archive_raises(tmp_path: Path) -> None:
    whole = zipped(tmp_path, {"a.jsonl": ROWS, "b.jsonl": ROWS}).read_bytes()
    for cut in range(1, len(whole), 37):
        path = written(tmp_path, whole[:cut], "cut.zip")
        assert isinstance(read(path), Outcome)
    stream = io.BytesIO(whole)
    assert zipfile.is_zipfile(stream)
    assert isinstance(
        next(unwrap(File(written(tmp_path, whole[:-5]), "x.zip"), Settings())), (Source, Problem)
    )


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Rows of both are counted, and what is said of a row says of which file's."""
    good, bad = b'{"response": "a", "reward": 1}\n', b"no row\n"
    paths = []
    for number in range(2):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.jsonl", bad + good.replace(b"a", b"x%d" % number))
        paths.append(path)
    outcome = read(*paths, names=["0.zip", "0.zip"])
    assert [(problem.file, problem.row) for problem in outcome.said("not_json")] == [
        ("rows.jsonl", 1),
        ("0.zip/rows.jsonl", 1),
    ]
    assert [rollout.file for rollout in outcome.rollouts] == ["rows.jsonl", "0.zip/rows.jsonl"]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(level=1).compress])
def test_rows_of_a_small_file_that_was_cut_stand(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    rows = "".join(f'{{"prompt": "q{i}", "response": "{i**9}", "reward": {i}}}\n' for i in range(400))
    packed = pack(rows.encode())
    path = tmp_path / "rows.jsonl.packed"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    outcome = read(path)
    known = rows.splitlines()
    assert (len(outcome.rollouts) > 0) == (pack is gzip.compress)  # a frame of zstd is one block here
    for one in outcome.rollouts:
        assert json.loads(known[one.row - 1])["response"] == one.response
    assert "ends early" in outcome.only("damaged_stream").message


def test_a_member_whose_own_header_is_damaged_is_said_and_the_others_stand(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("1.jsonl", "2.jsonl"):
            archive.writestr(name, f'{{"prompt": "q", "response": "{name}", "reward": 1}}\n')
    data = bytearray(path.read_bytes())
    data[:2] = b"PX"  # the directory at the end still points to it
    second = data.index(b"PK\x03\x04")
    data[:2], data[second : second + 2] = b"PK", b"PX"
    path.write_bytes(data)
    outcome = read(path)
    assert [one.response for one in outcome.rollouts] == ["1.jsonl"]
    assert "Bad magic number" in outcome.only("damaged_stream").message
