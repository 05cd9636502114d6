"""One member of a ZIP as a stream, zstd (method 93) included, which zipfile does not read yet."""

import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import IO, Any, BinaryIO

from app.ingest.archives import BROKEN, READABLE_METHODS, why
from app.ingest.expand import ZSTD, Account, Caps, DamagedStream, Expanding
from app.ingest.record import Source

METHOD_ZSTD = 93
LOCAL_HEADER = 30


@contextmanager
def opened(source: Source, info: zipfile.ZipInfo, caps: Caps) -> Iterator[BinaryIO]:
    """The member's bytes, counted as they come out. Raises DamagedStream, TooLarge."""
    caps.check_ratio(f"{source.name}: {info.filename}", info.compress_size, info.file_size)
    account = caps.account(f"{source.name}: {info.filename}", max(1, info.compress_size))
    if info.flag_bits & 1:
        raise DamagedStream("it is encrypted")
    if info.compress_type == METHOD_ZSTD:
        with source.path.open("rb") if source.path else source.open() as file:
            yield BufferedReader(Expanding(BufferedReader(_part(file, info)), ZSTD, account))
        return
    if info.compress_type not in READABLE_METHODS:
        raise DamagedStream(f"it is packed with method {info.compress_type}, which is not read")
    try:
        with zipfile.ZipFile(str(source.path)) as archive, archive.open(info) as stream:
            yield BufferedReader(_Counted(stream, account))
    except BROKEN as error:
        raise DamagedStream(f"the archive is damaged ({why(error)})") from None


def _part(file: IO[bytes], info: zipfile.ZipInfo) -> "_Part":
    """The compressed bytes: behind the member's own header, whose lengths count."""
    header = b""
    if info.header_offset >= 0:  # zipfile counts back from the end, and may be told to count too far
        file.seek(info.header_offset)
        header = file.read(LOCAL_HEADER)
    if len(header) < LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise DamagedStream("the archive is damaged (a member's header)")
    name, extra = struct.unpack("<HH", header[26:30])
    file.seek(info.header_offset + LOCAL_HEADER + name + extra)
    return _Part(file, info.compress_size)


class _Part(RawIOBase):
    """So many bytes of a file from where it stands."""

    def __init__(self, file: IO[bytes], count: int) -> None:
        super().__init__()
        self._file, self._left = file, count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.read(min(len(view), self._left))
        self._left -= len(data)
        view[: len(data)] = data
        return len(data)


class _Counted(RawIOBase):
    """A stream whose bytes are counted, whatever the archive says of its size."""

    def __init__(self, stream: IO[bytes], account: Account) -> None:
        super().__init__()
        self._stream, self._account, self._written = stream, account, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        self._written += len(data)
        self._account.reach(self._written, 1)
        view[: len(data)] = data
        return len(data)
