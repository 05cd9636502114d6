"""The bytes of a transfer on disk: one stream cut into its files, appended at its end and nowhere else.

A transfer's files lie in the spool folder as `<id>.<number>`, beside `<id>.lock`. They are written in order,
so how much is there is read off their sizes: whatever killed the writer, the offset is what the disk holds.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from app.errors import Conflict, NotFound, TooLarge
from app.uploads import fsync_folder, needing_space

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Pieces:
    """Where the bytes of one transfer lie. `sizes`: of its files, in the order in which they are sent."""

    folder: Path
    id: str
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.id}.lock"

    def name(self, number: int) -> str:
        return f"{self.id}.{number}"

    def path(self, number: int) -> Path:
        return self.folder / self.name(number)

    def paths(self) -> Iterator[Path]:
        yield from map(self.path, range(len(self.sizes)))


def begin(pieces: Pieces) -> None:
    """Make the place for its bytes."""
    pieces.folder.mkdir(parents=True, exist_ok=True)
    pieces.lock.touch()


def remove(pieces: Pieces) -> None:
    for path in (pieces.lock, *pieces.paths()):
        path.unlink(missing_ok=True)


def offset_of(pieces: Pieces) -> int:
    """How many bytes are here, counted up to the first file that is not whole."""
    here = 0
    for path, size in zip(pieces.paths(), pieces.sizes, strict=True):
        found = size_of(path)
        here += min(found, size)
        if found < size:
            break
    return here


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_written(pieces: Pieces, otherwise: float) -> float:
    """When a byte came last (Unix seconds)."""
    times = [otherwise]
    for path in pieces.paths():
        try:
            times.append(path.stat().st_mtime)
        except FileNotFoundError:
            break
    return max(times)


@contextmanager
def alone(pieces: Pieces) -> Iterator[None]:
    """Keep every other request from writing to it; the kernel lets go of it however the process ends.

    Raises Conflict while another one writes, NotFound where its place is not there.
    """
    try:
        lock = open(pieces.lock, "r+b")  # noqa: SIM115 # closed below, on every way out
    except FileNotFoundError:
        raise NotFound("What was here of this transfer is gone. Begin another one.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                "Another request is sending to this transfer. Wait a moment, then ask for the offset again."
            ) from None
        yield


@dataclass
class Writer:
    """Appends to the stream from `offset` on; nothing in it waits for the disk but `close`."""

    pieces: Pieces
    offset: int
    number: int = -1
    left: int = 0
    file: BinaryIO | None = None
    written: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        left = self.offset
        for number, size in enumerate(self.pieces.sizes):
            if left < size:
                self.number, self.left = number, size - left
                return
            left -= size
        self.number = len(self.pieces.sizes)

    def write(self, data: bytes) -> None:
        """Raises TooLarge, before a byte of it is taken, where it goes beyond the end; Busy."""
        if self.offset + len(data) > self.pieces.total:
            raise too_many(self.pieces)
        rest = memoryview(data)
        with needing_space():
            while rest:
                if self.left == 0:
                    self.next_file()
                    continue
                if self.file is None:
                    self.file = self.open()
                part = rest[: self.left]
                self.file.write(part)
                self.left -= len(part)
                self.offset += len(part)
                rest = rest[len(part) :]

    def open(self) -> BinaryIO:
        path = self.pieces.path(self.number)
        fresh = self.left == self.pieces.sizes[self.number]
        return open(path, "wb" if fresh else "ab", buffering=BLOCK)

    def next_file(self) -> None:
        self.finish_file()
        self.number += 1
        self.left = self.pieces.sizes[self.number]

    def finish_file(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            file.close()
            self.written.append(self.pieces.path(self.number))

    def leave(self) -> None:
        """Hand what was written to the operating system. Raises Busy where the last of it found no space."""
        with needing_space():
            self.finish_file()

    def close(self) -> None:
        """`leave`, and what was written is on disk when this returns."""
        self.leave()
        for path in self.written:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        fsync_folder(self.pieces.folder)


def too_many(pieces: Pieces) -> TooLarge:
    return TooLarge(
        f"The transfer was begun with {pieces.total} bytes, and this request has more than are missing. "
        "Send the rest of the files that it was begun with, or begin another."
    )


def stream(pieces: Pieces, start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to `end`, which are here, in blocks."""
    before = 0
    for path, size in zip(pieces.paths(), pieces.sizes, strict=True):
        first, last = max(start - before, 0), min(end - before, size)
        before += size
        if first >= last:
            continue
        with open(path, "rb") as file:
            file.seek(first)
            while first < last and (block := file.read(min(BLOCK, last - first))):
                first += len(block)
                yield block


def digests(pieces: Pieces, start: int, end: int, step: int) -> list[str]:
    """SHA-256 of every `step` bytes from `start` to `end`; the last one may be of fewer."""
    found = []
    for first in range(start, end, step):
        digest = hashlib.sha256()
        for block in stream(pieces, first, min(first + step, end)):
            digest.update(block)
        found.append(digest.hexdigest())
    return found


def hashed(pieces: Pieces) -> tuple[Sequence[str], str]:
    """(SHA-256 of each file, SHA-256 of all of them as one stream), every file put on disk first."""
    whole = hashlib.sha256()
    each = []
    for path, size in zip(pieces.paths(), pieces.sizes, strict=True):
        digest = hashlib.sha256()
        with open(path, "rb" if size else "ab+") as file:
            os.fsync(file.fileno())
            while block := file.read(BLOCK):
                digest.update(block)
                whole.update(block)
        each.append(digest.hexdigest())
    return each, whole.hexdigest()
