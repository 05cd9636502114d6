"""tar archives: each regular file one file, names made safe; links, devices and sparse files are not read."""

import tarfile
from collections.abc import Callable, Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any

from app.ingest.archives import MAX_MEMBERS, Member, ignored, safe_name, why
from app.ingest.expand import Caps, DamagedStream
from app.ingest.record import Problem

BUFFER = 1 << 20
#: Names and attributes that stand in blocks of their own before a member; tarfile reads such a block at once.
LONG_BLOCKS = (*(b"x", b"g", b"X"), tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
MOST_BLOCK = 1 << 20
BROKEN = (tarfile.TarError, OSError, ValueError, EOFError, OverflowError, LookupError)


def is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


class _Info(tarfile.TarInfo):
    """A member's header that claims no large block of attributes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Info":
        info = super().frombuf(buf, encoding, errors)
        if info.type in LONG_BLOCKS and not 0 <= info.size <= MOST_BLOCK:
            raise tarfile.ReadError("attributes past any honest size")
        return info


def members(name: str, path: Path, caps: Caps, report: Callable[[int], None]) -> Iterator[Member | Problem]:
    """The files of an archive in its own order; `report` hears how far in the archive the reading got."""
    count = files = 0
    try:
        with tarfile.open(path, "r:", tarinfo=_Info, errorlevel=2) as archive:
            for info in archive:
                count += 1
                if count > 2 * MAX_MEMBERS or files >= MAX_MEMBERS:
                    message = f"{name} holds more than {MAX_MEMBERS:,} files; only so many are read."
                    yield Problem(message, "too_many_files", "error")
                    return
                if info.isdir() or ignored(info.name):
                    continue
                files += 1
                if not info.issparse() and info.offset_data + info.size > path.stat().st_size:
                    message = f"{name}: {safe_name(info.name)} ends early: the archive is incomplete."
                    yield Problem(message, "damaged_stream", "error")
                    return
                yield _member(name, archive, info, report)
    except BROKEN as error:
        message = f"{name}: the archive is damaged ({why(error)}); files before that point stand."
        yield Problem(message, "damaged_stream", "error")
    if not files:
        yield Problem(f"{name} is an archive without files.", "no_rows", "error")


def _member(
    name: str, archive: tarfile.TarFile, info: tarfile.TarInfo, report: Callable[[int], None]
) -> Member | Problem:
    shown = safe_name(info.name)
    if not info.isreg() or info.issparse():
        kind = "a sparse file" if info.isreg() else "a link or a device"
        return Problem(f"{name}: {shown} is {kind}, which is not read.", "not_a_file", "error")

    def opened() -> BufferedReader:
        stream = archive.extractfile(info)
        if stream is None:
            raise DamagedStream("the archive is damaged")
        return BufferedReader(_Reported(stream, info, report), BUFFER)

    return Member(shown, opened)


class _Reported(RawIOBase):
    """A member's bytes, with the place in the archive told on the way."""

    def __init__(self, stream: IO[bytes], info: tarfile.TarInfo, report: Callable[[int], None]) -> None:
        super().__init__()
        self._stream, self._at, self._report = stream, info.offset_data, report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(len(view))
        except BROKEN as error:
            raise DamagedStream(f"the archive is damaged ({why(error)})") from None
        self._at += len(data)
        self._report(self._at)
        view[: len(data)] = data
        return len(data)
