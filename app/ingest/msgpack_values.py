"""msgpack by parts: elements of a list as they lie, lists of numbers as arrays, sizes checked first."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

FAILURES = (
    msgspec.DecodeError,
    msgspec.ValidationError,
    RecursionError,
    MemoryError,
    ValueError,
    OverflowError,
)
_RAWS = msgspec.msgpack.Decoder(list[msgspec.Raw])
_INTS = msgspec.msgpack.Decoder(list[int])
_BOOLS = msgspec.msgpack.Decoder(list[bool])
_FLOATS = msgspec.msgpack.Decoder(list[float])
_TEXTS = msgspec.msgpack.Decoder(list[str])
_ANY = msgspec.msgpack.Decoder()
#: Single values past this many bytes are no numbers or names.
MAX_SINGLE = 1 << 16
FLOAT64 = 0xCB


class Malformed(Exception):
    """The bytes are not what they should be."""


def list_header(data: Any) -> tuple[int, int] | None:
    """(elements, bytes of the header) of a list, None for anything else."""
    if not len(data):
        return None
    first = data[0]
    if 0x90 <= first <= 0x9F:
        return first & 0x0F, 1
    size = {0xDC: 2, 0xDD: 4}.get(first)
    if size is None or len(data) < 1 + size:
        return None
    return int.from_bytes(bytes(data[1 : 1 + size]), "big"), 1 + size


def parts(data: Any, most: int) -> list[memoryview]:
    """The elements of a list, each as its bytes. Raises Malformed."""
    header = list_header(data)
    if header is None or header[0] > min(most, len(data)):
        raise Malformed
    try:
        return [memoryview(raw) for raw in _RAWS.decode(data)]
    except FAILURES:
        raise Malformed from None


def numbers(data: memoryview, kind: str) -> NDArray[Any] | None:
    """A list of whole numbers ("i"), floats ("f") or truths ("b") as an array; None for anything else."""
    header = list_header(data)
    if header is None or header[0] > len(data):
        return None
    count, start = header
    if kind == "f" and len(data) == start + 9 * count:
        body = np.frombuffer(data[start:], np.uint8).reshape(count, 9)
        if bool((body[:, 0] == FLOAT64).all()):
            return body[:, 1:].copy().view(np.dtype(">f8")).ravel().astype(np.float64)
    try:
        if kind == "i":
            return np.array(_INTS.decode(data), np.int64)
        if kind == "b":
            return np.array(_BOOLS.decode(data), np.uint8)
        return np.array(_FLOATS.decode(data), np.float64)
    except FAILURES:
        return None


def texts(data: memoryview) -> list[str] | None:
    header = list_header(data)
    if header is None or header[0] > len(data):
        return None
    try:
        return _TEXTS.decode(data)
    except FAILURES:
        return None


def single(data: memoryview) -> Any:
    """One number, truth or text; None for anything else."""
    if len(data) > MAX_SINGLE or list_header(data) is not None:
        return None
    try:
        value = _ANY.decode(data)
    except FAILURES:
        return None
    return value if isinstance(value, (bool, int, float, str)) else None
