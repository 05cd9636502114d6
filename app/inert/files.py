"""From a file to its value: a bare pickle, or the ZIP of torch.save. Numbers are left where they lie."""

import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from app.inert.names import Makes
from app.inert.opcodes import read
from app.inert.values import Refused

#: The most that members which were compressed afterwards may become together, of one file.
MAX_INFLATED = 512 << 20
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    LookupError,
)


class _Window:
    """A memoryview as a file that can seek."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, len(self._data))[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        end = len(self._data) if count is None or count < 0 else self._at + count
        found = bytes(self._data[self._at : end])
        self._at += len(found)
        return found


def value(data: memoryview) -> tuple[Any, int]:
    """The value of the file, and how many of its texts were not UTF-8. Raises Refused."""
    if bytes(data[:4]) == b"PK\x03\x04":
        return torch_value(data)
    return read(data, Makes())


def torch_value(data: memoryview) -> tuple[Any, int]:
    """The value of a file of torch.save. Raises Refused."""
    try:
        archive = zipfile.ZipFile(_Window(data))
    except _DAMAGED:
        raise Refused("the PyTorch file is damaged or incomplete: copy it again", "pickle_damaged") from None
    with archive:
        names = {info.filename: info for info in archive.infolist()}
        main = next((name for name in names if name == "data.pkl" or name.endswith("/data.pkl")), None)
        if main is None:
            raise Refused("it is no file of torch.save (it has no data.pkl)", "pickle_damaged")
        folder = main.removesuffix("data.pkl")
        if f"{folder}constants.pkl" in names:
            raise Refused("it is a TorchScript program, not data", "pickle")
        if bytes(_member(archive, names, f"{folder}byteorder", data) or b"little").strip() != b"little":
            raise Refused("its numbers are big-endian; save it again on the usual kind of machine", "pickle")
        return read(
            _member(archive, names, main, data) or memoryview(b""),
            Makes(_storages(archive, names, f"{folder}data/", data)),
        )


def _storages(
    archive: zipfile.ZipFile, names: dict[str, zipfile.ZipInfo], folder: str, data: memoryview
) -> Callable[[str, int], memoryview]:
    known: dict[str, memoryview] = {}

    def storage(key: str, size: int) -> memoryview:
        if key not in known:
            found = _member(archive, names, folder + key, data)
            known[key] = memoryview(b"") if found is None else found
        if len(known[key]) < size:
            raise Refused(
                f"a tensor of it should have {size:,} bytes, {len(known[key]):,} are there: the copy is "
                "incomplete", "pickle_damaged",
            )  # fmt: skip
        return known[key]

    return storage


def _member(
    archive: zipfile.ZipFile, names: dict[str, zipfile.ZipInfo], name: str, data: memoryview
) -> memoryview | None:
    """The bytes of a member: a part of the file itself where it is not compressed."""
    info = names.get(name)
    if info is None:
        return None
    try:
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            begin = info.header_offset
            sizes = struct.unpack("<HH", data[begin + 26 : begin + 30])
            start = begin + 30 + sum(sizes)
            if start + info.file_size > len(data):
                raise Refused("the PyTorch file is incomplete: copy it again", "pickle_damaged")
            return data[start : start + info.file_size]
        if info.file_size > MAX_INFLATED:
            raise Refused(
                "a compressed part of it is too large; save it with torch.save as it is", "too_large"
            )
        return memoryview(archive.read(info))
    except _DAMAGED as error:
        raise Refused(f"the PyTorch file is damaged ({error}): copy it again", "pickle_damaged") from None
