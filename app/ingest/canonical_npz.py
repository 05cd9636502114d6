"""Canonical npz: padded or ragged arrays; texts per row as unicode arrays; `metadata` a 0-d string with JSON.

Members are read as streams, row by row and in step: neither a compressed nor a huge array is held whole.
Object arrays are pickles and are never loaded.
"""

import math
import tokenize
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from app.ingest import tensors
from app.ingest.archives import BROKEN, READABLE_METHODS, member_names, why, zip_kind
from app.ingest.canonical_parquet import batch_metadata
from app.ingest.expand import Caps
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Source, Unreadable
from app.settings import Settings

#: An array in column order cannot be read row by row; up to this size it is held whole.
MAX_WHOLE_BYTES = 256 << 20
MAX_ITEM_BYTES = 1 << 20


class _Member:
    """One array of the archive, read front to back."""

    def __init__(self, name: str, stream: IO[bytes], size: int) -> None:
        self.name = name
        self._stream = stream
        self.shape, fortran, self.dtype = _npy_header(name, stream)
        expected = math.prod(self.shape) * self.dtype.itemsize
        if self.dtype.hasobject:
            raise _LeftOut(
                "is an object array (a pickle inside), which is never loaded; save texts as a unicode array"
            )
        if expected > size:
            raise _LeftOut(f"declares {expected:,} bytes but the file holds {size:,}")
        if self.dtype.itemsize > MAX_ITEM_BYTES:
            raise _LeftOut("has entries of more than a MiB")
        self._whole = self._load(expected) if fortran and len(self.shape) > 1 else None
        self._at = 0

    def _load(self, size: int) -> NDArray[Any]:
        if size > MAX_WHOLE_BYTES:
            raise _LeftOut("is in column order and too large for that; save np.ascontiguousarray of it")
        return np.frombuffer(self._exactly(size), self.dtype).reshape(self.shape, order="F")

    def take(self, count: int) -> NDArray[Any]:
        if self._whole is not None:
            self._at += count
            return self._whole[self._at - count : self._at]
        shape = (count, *self.shape[1:])
        return np.frombuffer(self._exactly(math.prod(shape) * self.dtype.itemsize), self.dtype).reshape(shape)

    def scalar(self) -> Any:
        """The one value of a 0-d array."""
        return np.frombuffer(self._exactly(self.dtype.itemsize), self.dtype)[0]

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except BROKEN as error:
            raise Unreadable(
                f"array {self.name} is damaged ({why(error)}); copy the file again.", "npz_damaged"
            ) from None
        if len(data) != size:
            raise Unreadable(f"array {self.name} ends early; copy the file again.", "npz_damaged")
        return data


class _LeftOut(Exception):
    """Why an array is not read; the others are."""


def _npy_header(name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
    except (*BROKEN, SyntaxError, TypeError, tokenize.TokenError, RecursionError, MemoryError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise _LeftOut(f"has no valid npy header ({reason})") from None
    return shape, fortran, dtype


def sniff(source: Source, settings: Settings) -> bool:
    if source.path is None or not source.head.startswith(b"PK\x03\x04"):
        return False
    names = member_names(source.path)
    return names is not None and zip_kind(names) == "npz"


def read(source: Source, settings: Settings) -> Iterator[Item]:
    if source.path is None:
        raise Unreadable("not a valid npz file.", "not_npz")
    notes = Notes()
    try:
        stack = ExitStack()
        archive = stack.enter_context(zipfile.ZipFile(source.path))
    except BROKEN:
        raise Unreadable("not a valid npz file; save it again with numpy.savez.", "not_npz") from None
    with stack:
        infos = archive.infolist()
        expanded = sum(info.file_size for info in infos)
        account = Caps(settings).account(source.name, source.path.stat().st_size)
        account.reach(expanded, 1)
        arrays = _members(archive, infos, stack, notes)
        header = Header(raw=_metadata(arrays, notes))
        yield header
        yield from notes.drain()
        yield from tensors.rows(arrays, None, header.raw.get("alignment"), notes)
    yield from notes.summary()


def _members(
    archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], stack: ExitStack, notes: Notes
) -> dict[str, tensors.Array]:
    found: dict[str, tensors.Array] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        try:
            if info.compress_type not in READABLE_METHODS or info.flag_bits & 1:
                raise _LeftOut("is packed in a way that numpy does not write")
            found[name] = _Member(name, stack.enter_context(_open(archive, info)), info.file_size)
        except _LeftOut as reason:
            notes.warn(None, name, "unusable_values", f"{name} {reason}; left out")
    return found


def _open(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    try:
        return archive.open(info)
    except BROKEN as error:
        raise _LeftOut(f"is damaged ({why(error)})") from None


def _metadata(arrays: dict[str, tensors.Array], notes: Notes) -> dict[str, Any]:
    """The batch's metadata, taken out of the arrays."""
    array = arrays.get("metadata")
    if not isinstance(array, _Member) or array.shape != () or array.dtype.kind not in "US":
        return {}
    del arrays["metadata"]
    value = array.scalar()
    return batch_metadata(value if isinstance(value, bytes) else str(value), notes)


FORMAT = Format("canonical-npz", "Canonical rollout arrays, npz", sniff, read)
