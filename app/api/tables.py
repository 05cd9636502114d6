"""A whole estimate as a file, made while it is sent: Parquet, Arrow, npz or JSON lines. Memory does not
grow with it.

Rows are rollouts in storage order (groups together); `index` is their place in the batch. Numbers are
float64 and non-finite ones are themselves, except in JSON, where they are null and named in `nonfinite`.
"""

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sqlalchemy import Engine

from app.api.lookup import estimate_of
from app.api.token_values import FIELDS, MASK, Piece, Values, length_of, pieces
from app.responses import arrays, dumps
from storage.database import read

MEDIA_TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
    "npz": "application/zip",
    "jsonl": "application/x-ndjson",
}

#: Rows of one record batch or row group: as many as hold about so many tokens.
BATCH_TOKENS = 1 << 20

SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("group_id", pa.string(), nullable=False),
        pa.field(MASK, pa.list_(pa.uint8())),
        *(pa.field(name, pa.list_(pa.float64())) for name in FIELDS),
    ]
)

#: Reads the batch anew, with the fields that are named.
Source = Callable[[Sequence[str]], Iterator[Piece]]


def stream(engine: Engine, estimate_id: str, format: str) -> Iterator[bytes]:
    """The file in chunks, all from one snapshot."""
    with read(engine) as session:
        estimate = estimate_of(session, estimate_id)
        yield from WRITERS[format](lambda fields: pieces(session, estimate, fields))


class Sink(io.RawIOBase):
    """Collects what a writer writes until it is taken. It cannot seek, so that writers do not go back."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.chunks.append(bytes(data))
        return len(self.chunks[-1])

    def take(self) -> bytes:
        taken, self.chunks = b"".join(self.chunks), []
        return taken


def jsonl(source: Source) -> Iterator[bytes]:
    for piece in source(FIELDS):
        rows = zip(piece.index, piece.group_id, piece.values, strict=True)
        lines = [dumps({"index": i, "group_id": group, **arrays(values)}) for i, group, values in rows]
        yield b"\n".join(lines) + b"\n"


def arrow(source: Source) -> Iterator[bytes]:
    sink = Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), SCHEMA) as writer:
        for batch in record_batches(source):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def parquet(source: Source) -> Iterator[bytes]:
    sink = Sink()
    with pq.ParquetWriter(
        pa.PythonFile(sink, "w"), SCHEMA, compression="zstd", compression_level=1
    ) as writer:
        for batch in record_batches(source):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def record_batches(source: Source) -> Iterator[Any]:
    rows: list[tuple[int, str, Values]] = []
    tokens = 0
    for piece in source(FIELDS):
        rows += zip(piece.index, piece.group_id, piece.values, strict=True)
        tokens += sum(length_of(values) for values in piece.values)
        if tokens >= BATCH_TOKENS:
            yield record_batch(rows)
            rows, tokens = [], 0
    if rows:
        yield record_batch(rows)


def record_batch(rows: list[tuple[int, str, Values]]) -> Any:
    index = pa.array([row[0] for row in rows], pa.int64())
    groups = pa.array([utf8(row[1]) for row in rows], pa.string())
    lists = [ragged([row[2][name] for row in rows], SCHEMA.field(name).type) for name in (MASK, *FIELDS)]
    return pa.record_batch([index, groups, *lists], schema=SCHEMA)


def ragged(values: list[NDArray[Any] | None], kind: Any) -> Any:
    """A list column without a Python object per number."""
    lengths = [0 if array is None else len(array) for array in values]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    present = [array for array in values if array is not None]
    flat = np.concatenate(present) if present else np.empty(0)
    missing = pa.array([array is None for array in values])
    content = pa.array(flat.astype(kind.value_type.to_pandas_dtype()), kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), content, type=kind, mask=missing)


def utf8(text: str) -> str:
    """Arrow takes no lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def npz(source: Source) -> Iterator[bytes]:
    """Ragged, as the canonical npz: `index` [B], `response_offsets` [B+1], then one value per token.

    Each array is read and written in a pass of its own, as an archive holds one after the other.
    """
    index: list[int] = []
    lengths: list[int] = []
    names: set[str] = set()
    for piece in source(FIELDS):
        index += piece.index
        lengths += [length_of(values) for values in piece.values]
        names |= {name for values in piece.values for name, array in values.items() if array is not None}
    sink = Sink()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        yield from member(archive, sink, "index", [np.array(index, np.int64)], len(index), np.int64)
        yield from member(archive, sink, "response_offsets", [offsets], len(offsets), np.int64)
        for name in (MASK, *FIELDS):
            if name in names:
                dtype = np.uint8 if name == MASK else np.float64
                yield from member(archive, sink, name, column(source, name), int(offsets[-1]), dtype)
    yield sink.take()


def column(source: Source, name: str) -> Iterator[NDArray[Any]]:
    """A field's values, part after part; a rollout that lacks it has NaN (a mask: 1) for each token."""
    fill = 1 if name == MASK else np.nan
    for piece in source(() if name == MASK else (name,)):
        found = ((values[name], length_of(values)) for values in piece.values)
        yield np.concatenate([np.full(length, fill) if array is None else array for array, length in found])


def member(
    archive: zipfile.ZipFile, sink: Sink, name: str, chunks: Any, length: int, dtype: Any
) -> Iterator[bytes]:
    """One array of the archive, written as it comes; its length is known before."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": (length,),
    }
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype).tobytes())
            if data := sink.take():
                yield data
    yield sink.take()


WRITERS: dict[str, Callable[[Source], Iterator[bytes]]] = {
    "parquet": parquet,
    "arrow": arrow,
    "npz": npz,
    "jsonl": jsonl,
}
