"""What is said of a file is one printable line of bounded length, whatever it holds."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.ingest.reading import read, read_rows


def test_what_a_file_quotes_cannot_break_the_line(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, {"response": "a", "reward": "one\ntwo\u202e\ud800", "step": "\x1b[31m"})
    said = [problem.message for problem in outcome.problems]
    assert any("one·two··" in message for message in said)
    assert all(message.isprintable() for message in said)


def test_a_very_long_name_is_not_said_in_full(tmp_path: Path) -> None:
    name = "k" * 100_000
    outcome = read_rows(tmp_path, f'{{"response": "a", "{name}": 1, "{name}": 2}}')
    message = outcome.only("repeated_key").message
    assert len(message) < 2100
    assert message.startswith("row 1: kkk") and message.endswith("the last one was taken")


def test_a_damaged_archive_is_described_without_the_system_s_numbers(tmp_path: Path) -> None:
    """An offset before the file's begin makes the system refuse to seek."""
    out = io.BytesIO()
    np.savez(out, response_ids=np.ones((2, 3), np.int32), response_lengths=np.array([3, 3]))
    data = bytearray(out.getvalue())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        start = archive.start_dir
    data[start + 42 : start + 46] = (len(data) * 2).to_bytes(4, "little")
    end = data.rindex(b"PK\x05\x06")
    data[end + 16 : end + 20] = (start + 100_000).to_bytes(4, "little")
    path = tmp_path / "batch.npz"
    path.write_bytes(bytes(data))
    said = " ".join(problem.message for problem in read(path).problems)
    assert "an offset in it points outside of the file" in said
    assert "Errno" not in said


@pytest.mark.parametrize(
    ("encoding", "bits"),
    [("utf-16", 16), ("utf-16-le", 16), ("utf-16-be", 16), ("utf-32", 32), ("utf-32-be", 32)],
)
def test_wide_text_is_named_with_and_without_its_mark(tmp_path: Path, encoding: str, bits: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('{"prompt": "q", "response": "ä", "reward": 1}\n'.encode(encoding))
    assert read(path).sentence() == f"rows.jsonl: this is UTF-{bits} text; save it as UTF-8."


@pytest.mark.parametrize("header", ["c0,c1", "chat,mark", "count\tscore", "(x),y"])
def test_a_table_is_no_pickle_because_of_its_first_letter(tmp_path: Path, header: str) -> None:
    separator = "\t" if "\t" in header else ","
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{line}\n" for line in (header, *(f"hello{separator}{i}" for i in range(4)))))
    assert "no column is named like a response" in read(path).sentence()
