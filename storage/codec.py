"""One part's values as bytes and back: little-endian, split by byte position, zstd.

Why split by position: the exponent bytes of floats and the high bytes of ids repeat, so they compress once
they stand together. Everything is bit-exact, down to the sign of zero and the payload of a NaN.
"""

import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

Values = Sequence[NDArray[Any] | None]

#: "This one value was null": a quiet NaN whose payload survives float32 (its low 29 bits are zero).
MISSING_BITS = 0x7FF8_0000_0000_0000 | 0x15A5A5 << 29
MISSING_BITS_F4 = 0x7FC0_0000 | 0x15A5A5
MISSING = np.array([MISSING_BITS], np.uint64).view(np.float64)[0]

#: zstd levels. QUICK takes half the time or less on noise and a few per cent more room; read the same way.
SMALL, QUICK = 1, -5
#: Of so many values some will tell, in nearly every array, that single precision does not hold them.
FIRST = 256

DTYPES = {"u1": "|u1", "i4": "<i4", "i8": "<i8", "f4": "<f4", "f8": "<f8"}
ABSENT = -1

_local = threading.local()  # zstd contexts are not for sharing between threads


class Damaged(ValueError):
    """The bytes are not what was written."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """`lengths`: little-endian int32 per slot, -1 absent; `checksum`: CRC-32 of data, then lengths."""

    codec: str
    dtype: str
    lengths: bytes
    checksum: int
    data: bytes


def is_missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a float array holds `MISSING`, of the same shape; all False for integers."""
    if array.dtype == np.float64:
        return np.asarray(np.ascontiguousarray(array).view(np.uint64) == MISSING_BITS).reshape(array.shape)
    if array.dtype == np.float32:
        return np.asarray(np.ascontiguousarray(array).view(np.uint32) == MISSING_BITS_F4).reshape(array.shape)
    return np.zeros(array.shape, np.bool_)


def encode(values: Values, level: int = SMALL) -> Encoded:
    """Encode one part: a one-dimensional array per slot, or None where the rollout has no such field."""
    for array in values:
        if array is not None and array.ndim != 1:
            raise ValueError(f"a token array has one dimension, not {array.ndim}")
    lengths = np.array([ABSENT if array is None else array.shape[0] for array in values], "<i4").tobytes()
    joined = narrow(_join([array for array in values if array is not None]))
    raw = joined.view(np.uint8).reshape(joined.shape[0], joined.itemsize)
    data = _compressor(level).compress((raw if joined.itemsize == 1 else _turned(raw)).data)
    codec = "bss+zstd1" if joined.itemsize > 1 else "zstd1"
    return Encoded(codec, joined.dtype.str[1:], lengths, checksum(data, lengths), data)


def checksum(data: bytes, lengths: bytes) -> int:
    return zlib.crc32(lengths, zlib.crc32(data))


def slot_lengths(lengths: bytes) -> NDArray[np.int32]:
    """Tokens per slot, -1 absent. Raises Damaged."""
    if len(lengths) % 4:
        raise Damaged(f"has lengths of {len(lengths)} bytes, which is no multiple of 4")
    return np.frombuffer(lengths, "<i4").astype(np.int32)


def planes(encoded: Encoded) -> NDArray[np.uint8]:
    """The byte planes, `[itemsize, values]`, after checking them. Raises Damaged."""
    if checksum(encoded.data, encoded.lengths) != encoded.checksum:
        raise Damaged("the checksum does not fit the stored bytes")
    if encoded.dtype not in DTYPES or encoded.codec not in ("bss+zstd1", "zstd1"):
        raise Damaged(f"unknown codec {encoded.codec!r} of {encoded.dtype!r}")
    size = np.dtype(DTYPES[encoded.dtype]).itemsize
    count = int(np.maximum(slot_lengths(encoded.lengths), 0).sum())
    try:
        raw = _decompressor().decompress(encoded.data, max_output_size=count * size)
    except zstandard.ZstdError as error:
        raise Damaged(f"cannot be decompressed: {error}") from error
    if len(raw) != count * size:
        raise Damaged(f"holds {len(raw)} bytes instead of {count * size}")
    return np.frombuffer(raw, np.uint8).reshape(size, count)


def decode_into(encoded: Encoded, out: NDArray[Any]) -> None:
    """Write all values, end to end, into `out`, of the encoded type or a wider one. Raises Damaged."""
    source = planes(encoded)
    target = out if out.dtype == DTYPES[encoded.dtype] else np.empty(source.shape[1], DTYPES[encoded.dtype])
    _turn(source, target.view(np.uint8).reshape(source.shape[1], source.shape[0]))
    if target is not out:
        with np.errstate(invalid="ignore"):
            out[...] = target


def decode_flat(encoded: Encoded) -> NDArray[Any]:
    """All values, end to end. Raises Damaged."""
    return _turned(planes(encoded)).reshape(-1).view(DTYPES[encoded.dtype])


def decode(encoded: Encoded) -> list[NDArray[Any] | None]:
    """The values of every slot. Raises Damaged."""
    flat = decode_flat(encoded)
    lengths = slot_lengths(encoded.lengths)
    ends = np.cumsum(np.maximum(lengths, 0))
    return [
        None if length == ABSENT else flat[end - length : end]
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    ]


def decode_slot(encoded: Encoded, slot: int) -> NDArray[Any] | None:
    """The values of one slot; only its bytes are put together. Raises Damaged."""
    lengths = slot_lengths(encoded.lengths)
    if not 0 <= slot < lengths.shape[0]:
        raise Damaged(f"has {lengths.shape[0]} slots, slot {slot} is asked for")
    if lengths[slot] == ABSENT:
        return None
    start = int(np.maximum(lengths[:slot], 0).sum())
    wanted = planes(encoded)[:, start : start + int(lengths[slot])]
    return _turned(wanted).reshape(-1).view(DTYPES[encoded.dtype])


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same values in the smallest stored type that holds every one exactly."""
    kind = array.dtype.kind
    if array.dtype in (np.bool_, np.uint8):
        return array.astype("|u1", copy=False)
    if kind in "iu":
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if high > np.iinfo(np.int64).max:
            raise ValueError(f"{high} does not fit a 64-bit signed integer")
        fits = low >= np.iinfo(np.int32).min and high <= np.iinfo(np.int32).max
        return array.astype("<i4" if fits else "<i8", copy=False)
    if kind != "f" or array.itemsize > 8:
        raise ValueError(f"a token array of type {array.dtype} cannot be stored")
    if array.itemsize <= 4:
        return array.astype("<f4", copy=False)
    exact = array.astype("<f8", copy=False)
    single = None if _single(exact[:FIRST]) is None else _single(exact)
    return exact if single is None else single


def _single(array: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """The doubles in single precision; None where that does not hold every one exactly."""
    with np.errstate(all="ignore"):
        small = array.astype("<f4")
        back = small.astype("<f8")
    return small if np.array_equal(back.view(np.uint64), array.view(np.uint64)) else None


def _turned(source: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A copy with rows and columns exchanged."""
    target = np.empty(source.shape[::-1], np.uint8)
    _turn(source, target)
    return target


def _turn(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    # Along the longer side: numpy's own copy of a transposed array takes three times as long.
    if source.shape[0] < source.shape[1]:
        for place, plane in enumerate(source):
            target[:, place] = plane
    else:
        for place, plane in enumerate(target):
            plane[...] = source[:, place]


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    if not arrays:
        return np.empty(0, "|u1")
    # An empty list from JSON has no type of its own and must not widen the others.
    typed = [array for array in arrays if array.size] or arrays[:1]
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(np.concatenate(typed))


def _compressor(level: int) -> zstandard.ZstdCompressor:
    held: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("compressors", {})
    if level not in held:
        held[level] = zstandard.ZstdCompressor(level=level)
    return held[level]


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    found: zstandard.ZstdDecompressor = _local.decompressor
    return found
