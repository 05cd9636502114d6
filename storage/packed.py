"""Whole columns in one blob: read in milliseconds where the rows of 8,192 rollouts take a hundred.

Written once, when a batch becomes ready or an estimate is finished; what is not there is read from the rows.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from storage.codec import Damaged

#: Stands first; another layout gets another number, and what has the old one is read from the rows.
MAGIC = b"VC1\0"
TEXTS = "texts"


def pack(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """One-dimensional columns, of numbers or bools, or of objects (text, bools, None), as bytes."""
    described, buffers = [], []
    for name, column in columns.items():
        if column.dtype == object:
            places = {value: place for place, value in enumerate(dict.fromkeys(column.tolist()))}
            codes = np.array([places[value] for value in column.tolist()], "<i4")
            described.append([name, TEXTS, codes.size, list(places)])
            buffers.append(codes.tobytes())
        else:
            plain = column.astype(column.dtype.newbyteorder("<"), copy=False)
            described.append([name, plain.dtype.str, plain.size, None])
            buffers.append(np.ascontiguousarray(plain).tobytes())
    head = json.dumps(described, separators=(",", ":")).encode()
    whole = b"".join(_padded(part) for part in (struct.pack("<Q", len(head)), head, *buffers))
    return MAGIC + zstandard.ZstdCompressor(level=1, write_checksum=True).compress(whole)


def _padded(part: bytes) -> bytes:
    """To a multiple of 8 bytes, so that every column lies where its numbers may."""
    return part + bytes(-len(part) % 8)


def unpack(data: bytes) -> dict[str, NDArray[Any]] | None:
    """The columns; None for another layout than this one. Raises Damaged."""
    if not data.startswith(MAGIC):
        return None
    try:
        whole = bytearray(zstandard.ZstdDecompressor().decompress(data[len(MAGIC) :]))
    except zstandard.ZstdError as error:
        raise Damaged(f"cannot be decompressed: {error}") from error
    (size,) = struct.unpack_from("<Q", whole)
    start, found = 8 + size + -size % 8, {}
    for name, kind, count, values in json.loads(whole[8 : 8 + size]):
        plain = np.frombuffer(whole, "<i4" if kind == TEXTS else kind, count, start)
        start += plain.nbytes + -plain.nbytes % 8
        found[name] = plain if values is None else _objects(values)[plain]
    return found


def kept(data: bytes | None) -> dict[str, NDArray[Any]] | None:
    """The columns, as long as they are there and whole. Else None: what the rows say stands, and
    `vantage check` tells of the damage."""
    try:
        return None if data is None else unpack(data)
    except Damaged:
        return None


def _objects(values: list[Any]) -> NDArray[np.object_]:
    made = np.empty(len(values), np.object_)
    made[:] = values
    return made
