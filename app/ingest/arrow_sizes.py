"""What compressed parts of an Arrow table declare to become, before anything of them is decompressed.

A message's metadata is a flatbuffer; a compressed buffer begins with its size (Arrow columnar format, IPC).
"""

import struct
from collections.abc import Iterator

import pyarrow as pa

RECORD_BATCH, DICTIONARY = 3, 2
#: An IPC file is a stream behind eight bytes.
FILE_START = 8


def declared(mapped: pa.MemoryMappedFile, is_file: bool) -> Iterator[int]:
    """Bytes that the compressed buffers of each message become, summed up to it. Raises pyarrow's errors."""
    mapped.seek(FILE_START if is_file else 0)
    total = 0
    for message in pa.ipc.MessageReader.open_stream(mapped):
        try:
            total += _message(bytes(message.metadata), message.body)
        except (struct.error, IndexError):
            raise pa.ArrowInvalid("a message's metadata is damaged") from None
        yield total


def _message(metadata: bytes, body: pa.Buffer | None) -> int:
    table = struct.unpack_from("<I", metadata, 0)[0]
    kind_at, header_at = _field(metadata, table, 1), _field(metadata, table, 2)
    if body is None or not kind_at or not header_at or metadata[kind_at] not in (RECORD_BATCH, DICTIONARY):
        return 0
    batch = _follow(metadata, header_at)
    if metadata[kind_at] == DICTIONARY:
        inner = _field(metadata, batch, 1)
        if not inner:
            return 0
        batch = _follow(metadata, inner)
    buffers_at, compression_at = _field(metadata, batch, 2), _field(metadata, batch, 3)
    if not buffers_at or not compression_at:
        return 0
    vector, total = _follow(metadata, buffers_at), 0
    for index in range(struct.unpack_from("<I", metadata, vector)[0]):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * index)
        if length >= 8 and 0 <= offset <= body.size - 8:
            total += max(0, int.from_bytes(body.slice(offset, 8).to_pybytes(), "little", signed=True))
    return total


def _field(data: bytes, table: int, index: int) -> int:
    """Where field `index` of a table lies, 0 where it has none."""
    start = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, start)[0]
    place = 4 + 2 * index
    offset = struct.unpack_from("<H", data, start + place)[0] if place < size else 0
    return table + offset if offset else 0


def _follow(data: bytes, at: int) -> int:
    return int(at + struct.unpack_from("<I", data, at)[0])
