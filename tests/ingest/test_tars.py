"""tar archives, plain and compressed: members are files with their folders; nothing else is opened."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from app.ingest import File, Problem, Source, unwrap
from app.settings import Settings
from tests.ingest.reading import read

ROW = b'{"response": "a", "reward": 1.0, "group_id": "g", "step": 1}\n'


def packed(path: Path, *members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_members_are_read_with_their_folders(compressed: bool, tmp_path: Path) -> None:
    path = packed(tmp_path / "run.tar", ("run/step_1/a.jsonl", ROW), ("run/step_1/b.jsonl", ROW * 2))
    if compressed:
        path = tmp_path / "run.tar.gz"
        path.write_bytes(gzip.compress((tmp_path / "run.tar").read_bytes()))
    outcome = read(path)
    assert [rollout.file for rollout in outcome.rollouts] == [f"run/step_1/{x}.jsonl" for x in "abb"]
    assert outcome.errors == []


def test_the_archives_name_stands_before_the_members(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.tar", ("../a/b.jsonl", ROW))
    (source,) = unwrap(File(path, "step_3/x.tar"), Settings())
    assert isinstance(source, Source)
    assert (source.name, source.trail) == ("a/b.jsonl", "step_3/x.tar/a/b.jsonl")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_not_followed(kind: bytes, tmp_path: Path) -> None:
    path = packed(tmp_path / "x.tar", ("a.jsonl", b""), kind=kind)
    (problem,) = unwrap(File(path, "x.tar"), Settings())
    assert isinstance(problem, Problem)
    assert problem.message == "x.tar: a.jsonl is a link or a device, which is not read."


def test_an_incomplete_archive_gives_what_came_before(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.tar", ("a.jsonl", ROW), ("b.jsonl", ROW * 40))
    path.write_bytes(path.read_bytes()[:2000])
    outcome = read(path)
    assert len(outcome.rollouts) == 1
    assert "incomplete" in outcome.only("damaged_stream").message


def test_attributes_past_any_honest_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    info = tarfile.TarInfo("attributes")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    path.write_bytes(info.tobuf() + b"\0" * 1024)
    (problem, *_) = unwrap(File(path, "x.tar"), Settings())
    assert isinstance(problem, Problem)
    assert "damaged" in problem.message


def test_an_empty_archive(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.tar", ("folder", b""), kind=tarfile.DIRTYPE)
    (problem,) = unwrap(File(path, "x.tar"), Settings())
    assert isinstance(problem, Problem)
    assert problem.message == "x.tar is an archive without files."
