"""Steps on disk until the server has them: one file each, a line of JSON and then the body of the upload.

A file is there whole or not at all. Its name orders it and is its Idempotency-Key, so that a step that was
sent by a process that died before it knew is not a second one.
"""

import json
import os
import re
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ENDING = ".step"


class Full(Exception):
    """The folder holds as much as it may."""


@dataclass(frozen=True)
class Waiting:
    """A step in the folder. `query`: of its upload; the body begins at `start`."""

    path: Path
    query: dict[str, Any]
    encoding: str | None
    start: int

    @property
    def key(self) -> str:
        return self.path.stem

    @property
    def size(self) -> int:
        """Of the body."""
        return self.path.stat().st_size - self.start

    def open(self) -> tuple[IO[bytes], int]:
        """The body and its length."""
        file = open(self.path, "rb")  # noqa: SIM115 - the caller closes it
        file.seek(self.start)
        return file, os.fstat(file.fileno()).st_size - self.start


def folder_of(root: Path, url: str, run: str) -> Path:
    """The folder of a run at a server; told apart by their names, with what a file name can hold."""
    digest = zlib.crc32(f"{url.rstrip('/')}\n{run}".encode())
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run)[:60]
    return root / f"{name}-{digest:08x}"


def put(folder: Path, query: dict[str, Any], content: Iterable[bytes], compress: bool, limit: int) -> Path:
    """Write a step. Raises Full, OSError; leaves nothing behind then."""
    folder.mkdir(parents=True, exist_ok=True)
    used = size_of(folder)
    path = folder / f"{time.time_ns():020d}-{uuid.uuid4().hex}{ENDING}"
    partial = path.with_suffix(".partial")
    head = {"query": query, "encoding": "gzip" if compress else None}
    try:
        with open(partial, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            for block in _gzip(content) if compress else content:
                used += len(block)
                if used > limit:
                    raise Full(f"{folder} is full, it may hold {limit:,} bytes (spool_bytes)")
                file.write(block)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return path


def _gzip(content: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    for block in content:
        yield packer.compress(block)
    yield packer.flush()


def waiting(folder: Path) -> list[Path]:
    """The steps in the folder, oldest first."""
    try:
        return sorted(folder.glob(f"*{ENDING}"))
    except OSError:
        return []


def size_of(folder: Path) -> int:
    total = 0
    for path in waiting(folder):
        try:
            total += path.stat().st_size
        except OSError:  # sent meanwhile
            continue
    return total


def read(path: Path) -> Waiting:
    """Raises OSError, ValueError (not a file of ours)."""
    with open(path, "rb") as file:
        line = file.readline()
    head = json.loads(line)
    return Waiting(path, dict(head["query"]), head["encoding"], len(line))


def set_aside(path: Path) -> Path:
    """Keep a step that the server refuses, out of the way of the others."""
    kept = path.parent / "refused"
    kept.mkdir(exist_ok=True)
    return path.replace(kept / path.name)
