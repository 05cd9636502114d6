"""An npz archive that grows row by row: no more than one row of it is held in memory.

Each member grows in a file of its own beside the result and is then copied into the archive. A member that
first occurs in a later row is filled for the rows before it.
"""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

FLOAT, INTEGER, MASK, TEXT = "<f8", "<i8", "|u1", "U"
#: What stands where a row has no value. Whole numbers have no such thing: a row without one ends the member.
FILL = {FLOAT: np.nan, MASK: 1}
AT_ONCE = 1 << 16  # values


@dataclass(slots=True)
class Member:
    """One array. `count`: values in `file`, texts as JSON lines until the `widest` (characters) is known."""

    kind: str
    file: IO[bytes]
    count: int = 0
    widest: int = 1
    whole: bool = True

    def add(self, values: Sequence[Any]) -> None:
        self.count += len(values)
        if self.kind == TEXT:
            self.file.writelines(json.dumps(value).encode() + b"\n" for value in values)
            self.widest = max(self.widest, *map(len, values))
        else:
            given = [np.nan if value is None else value for value in values]
            self.file.write(np.array(given, self.kind).tobytes())

    def fill(self, count: int) -> None:
        """`count` values that are not there."""
        if self.kind == INTEGER:
            self.whole = self.whole and not count
            return
        for done in range(0, count, AT_ONCE):
            some = min(AT_ONCE, count - done)
            self.add([""] * some if self.kind == TEXT else [FILL[self.kind]] * some)


@dataclass(slots=True)
class Growing:
    """The members of one archive so far, by name."""

    folder: Path
    members: dict[str, Member] = field(default_factory=dict)

    def add(self, name: str, kind: str, values: Sequence[Any] | None, size: int, before: int) -> None:
        """A row's values of a member, or `size` that are not there, `before` values having come before."""
        if name not in self.members:
            if values is None:
                return
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 # closed and gone with the archive
            self.members[name] = Member(kind, file)
            self.members[name].fill(before)
        member = self.members[name]
        if values is None:
            member.fill(size)
        else:
            member.add(values)


@contextmanager
def growing(beside: Path) -> Iterator[Growing]:
    """An archive without members; they are kept in the folder of the file that it will be."""
    made = Growing(beside.parent)
    try:
        yield made
    finally:
        for member in made.members.values():
            member.file.close()


def write(path: Path, header: dict[str, Any], grown: Growing) -> None:
    """The whole members as one compressed archive, the header as JSON in `metadata`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("metadata.npy", "w") as out:
            np.lib.format.write_array(out, np.array(json.dumps(header)), allow_pickle=False)
        for name, member in grown.members.items():
            if member.whole:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                    copy(member, out)


def copy(member: Member, out: IO[bytes]) -> None:
    kind = f"<U{member.widest}" if member.kind == TEXT else member.kind
    about = {"descr": kind, "fortran_order": False, "shape": (member.count,)}
    np.lib.format.write_array_header_1_0(out, about)
    member.file.seek(0)
    if member.kind == TEXT:
        for line in member.file:
            out.write(np.array(json.loads(line), kind).tobytes())
    else:
        shutil.copyfileobj(member.file, out, 1 << 20)
