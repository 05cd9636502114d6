"""Parquet files as rows of fields: checked before anything is read, then batch by batch; lists become arrays.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import TooLarge
from app.ingest.json_rows import FLOAT_LISTS, INT_LISTS
from app.ingest.record import Source, Unreadable
from app.settings import Settings
from storage.arrays import MISSING

MAGIC = b"PAR1"
BATCH_ROWS = 256
#: A row group is decoded in whole columns; one that claims more than this is refused.
MAX_ROW_GROUP_BYTES = 4 << 30
#: Rows that a file may hold per byte before it is looked at as a bomb; honest rollouts need many bytes per
#: row.
MAX_ROWS_PER_BYTE = 1

_FAILURES = (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError, OverflowError, TypeError)


def opened(source: Source) -> pq.ParquetFile:
    """The file's metadata, read and checked. Raises Unreadable or nothing."""
    if source.path is None or not source.head.startswith(MAGIC):
        raise Unreadable("this is not a Parquet file.", "not_parquet")
    if not _has_footer(source):
        raise Unreadable(
            "parquet footer missing; the copy is incomplete. Copy the file again after its writer has closed it.",
            "parquet_footer_missing",
        )
    try:
        return pq.ParquetFile(source.path)
    except _FAILURES:
        raise Unreadable("the Parquet footer is damaged; copy the file again.", "parquet_damaged") from None


def _has_footer(source: Source) -> bool:
    with source.open() as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 4))
        return size >= 12 and stream.read(4) == MAGIC


def columns(source: Source) -> frozenset[str] | None:
    """Names of the columns, or None where this is no readable Parquet file."""
    if not source.head.startswith(MAGIC):
        return None
    try:
        with opened(source) as file:
            return frozenset(file.schema_arrow.names)
    except Unreadable:
        return None


def check_size(file: pq.ParquetFile, settings: Settings, source: Source) -> None:
    """What the footer declares, against the limits, before a value is decoded. Raises TooLarge or Unreadable.
    """
    metadata = file.metadata
    if metadata.num_rows > settings.max_rows:
        raise TooLarge(
            f"{source.name} declares {metadata.num_rows:,} rows; at most {settings.max_rows:,} are read at once "
            "(VANTAGE_MAX_ROWS). Nothing of it was kept. Send it in parts."
        )
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    declared = sum(group.total_byte_size for group in groups)
    if declared > settings.max_expanded_bytes:
        limit = f"{settings.max_expanded_bytes:,} bytes (VANTAGE_MAX_EXPANDED_BYTES)"
        raise TooLarge(
            f"{source.name} expands past the limit of {limit}; nothing of it was kept. Send it in parts."
        )
    if any(group.total_byte_size > MAX_ROW_GROUP_BYTES for group in groups):
        raise TooLarge(f"{source.name} has a row group of more than 4 GiB; write it with smaller row groups.")
    names = file.schema_arrow.names
    if len(set(names)) != len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise Unreadable(
            f"column {', '.join(repeated)} is there twice; rename one of them.", "repeated_column"
        )


def rows(file: pq.ParquetFile, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row's number from 1 and its fields that are not null. Raises Unreadable where the data is damaged.
    """
    number, total = 0, max(1, file.metadata.num_rows)
    size = source.path.stat().st_size if source.path is not None else 0
    batches = file.iter_batches(batch_size=BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            table = [_column(name, batch.column(index)) for index, name in enumerate(batch.schema.names)]
        except _FAILURES as error:
            raise Unreadable(_sentence(number, error), "parquet_damaged") from None
        for index in range(batch.num_rows):
            number += 1
            yield number, {name: values[index] for name, values in table if values[index] is not None}
        source.report(size * number // total)


def _sentence(number: int, error: Exception) -> str:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return f"the Parquet data is damaged after row {number} ({reason}). Rows before it stand; copy the file again."


def _column(name: str, column: pa.Array) -> tuple[str, list[Any]]:
    kind = column.type
    flat = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if flat and name in FLOAT_LISTS | INT_LISTS and _is_number(kind.value_type):
        return name, _arrays(column)
    return name, column.to_pylist()


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _arrays(column: Any) -> list[Any]:
    """One array per row. Nulls inside a list become `MISSING`, for which the numbers become floats."""
    values = column.values
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    flat = values.to_numpy(zero_copy_only=False) if values.null_count == 0 else _with_missing(values)
    offsets = column.offsets.to_numpy().astype(np.int64)
    valid = column.is_valid().to_pylist()
    # Each row gets its own memory: a slice would keep the whole batch alive.
    return [flat[offsets[i] : offsets[i + 1]].copy() if valid[i] else None for i in range(len(column))]


def _with_missing(values: Any) -> Any:
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    flat = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    flat[nulls] = MISSING
    return flat
