"""Parquet files as rows of fields: checked before anything is read, then a few rows at a time.

A few kilobytes can declare gigabytes: what a file would become is known from `parquet_limits` before it does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.errors import TooLarge
from app.ingest.expand import Account, Caps
from app.ingest.json_rows import FLOAT_LISTS, INT_LISTS
from app.ingest.jsonable import values_of
from app.ingest.parquet_limits import Declared, check_untold, declared, pieces, spelled, spent_by
from app.ingest.record import Source, Unreadable
from app.settings import Settings
from storage.arrays import MISSING

MAGIC = b"PAR1"
MAX_BATCH_ROWS = 256
#: What the numbers of one batch of rows should take; Arrow needs many times as much while it decodes them.
NUMBER_BYTES = 4 << 20
#: What one batch may take of texts that no dictionary tells the length of.
TEXT_BYTES = 64 << 20
BUFFER = 1 << 20

_FAILURES = (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError, OverflowError, TypeError)
_DAMAGED = "the Parquet footer is damaged; copy the file again."


@dataclass(frozen=True, slots=True)
class Table:
    """A checked file, ready to be read. `columns` in the file's order; `texts`: paths of those that are read
    as numbers of their dictionary."""

    columns: list[str]
    schema: pa.Schema
    metadata: dict[bytes, bytes]
    texts: list[str]
    batch_rows: int
    account: Account


def opened(source: Source, texts: list[str] | None = None) -> pq.ParquetFile:
    """The file, its footer read; columns named in `texts` keep their dictionaries. Raises Unreadable."""
    if source.path is None or not source.head.startswith(MAGIC):
        raise Unreadable("this is not a Parquet file.", "not_parquet")
    if not _has_footer(source):
        raise Unreadable(
            "parquet footer missing; the copy is incomplete. Copy it again once its writer has closed it.",
            "parquet_footer_missing",
        )
    try:
        return pq.ParquetFile(
            source.path, read_dictionary=texts, buffer_size=BUFFER, page_checksum_verification=True
        )
    except _FAILURES:
        raise Unreadable(_DAMAGED, "parquet_damaged") from None


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
            return frozenset(_schema(file).names)
    except Unreadable:
        return None


def _schema(file: pq.ParquetFile) -> pa.Schema:
    try:
        return file.schema_arrow
    except _FAILURES:
        raise Unreadable(_DAMAGED, "parquet_damaged") from None


def checked(source: Source, settings: Settings) -> Table:
    """What the footer declares, held against the limits before a value is decoded. Raises TooLarge,
    Unreadable.
    """
    with opened(source) as file:
        schema, footer = _schema(file), file.metadata
        if footer.num_rows > settings.max_rows:
            raise TooLarge(
                f"{source.name} declares {footer.num_rows:,} rows; at most {settings.max_rows:,} are read at "
                "once (VANTAGE_MAX_ROWS). Nothing of it was kept. Send it in parts."
            )
        if len(set(schema.names)) != len(schema.names):
            repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
            message = f"column {', '.join(repeated)} is there twice; rename one of them."
            raise Unreadable(message, "repeated_column")
        found = _declared(file)
    size = source.path.stat().st_size if source.path is not None else 0
    account = Caps(settings).account(source.name, size)
    account.reach(found.numbers, size)
    check_untold(source.name, found, settings)
    per_row = found.numbers // max(1, footer.num_rows)
    fitting = min(TEXT_BYTES // max(1, found.longest), NUMBER_BYTES // max(1, per_row))
    batch_rows = max(1, min(MAX_BATCH_ROWS, fitting))
    return Table(schema.names, schema, schema.metadata or {}, found.dictionaries, batch_rows, account)


def _declared(file: pq.ParquetFile) -> Declared:
    try:
        return declared(file)
    except _FAILURES:
        raise Unreadable(_DAMAGED, "parquet_damaged") from None


def rows(table: Table, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row's number from 1 and its fields that are not null. Raises Unreadable, TooLarge."""
    with opened(source, table.texts) as file:
        number, total = 0, max(1, file.metadata.num_rows)
        size = source.path.stat().st_size if source.path is not None else 0
        parts = _parts(file.iter_batches(batch_size=table.batch_rows), table.account, size)
        while True:
            try:
                batch = next(parts, None)
                if batch is None:
                    return
                held = cells(batch)
            except _FAILURES as error:
                raise Unreadable(_sentence(number, error), "parquet_damaged") from None
            for index in range(batch.num_rows):
                number += 1
                yield number, {name: values[index] for name, values in held if values[index] is not None}
            source.report(size * number // total)


def _parts(batches: Iterator[Any], account: Account, size: int) -> Iterator[Any]:
    """The batches, or parts of them, each counted before its texts are spelled out. Raises TooLarge."""
    decoded = 0
    for batch in batches:
        for part, sizes in pieces(batch):
            decoded += spent_by(part, sizes)
            account.reach(decoded, size)
            yield part


def _sentence(number: int, error: Exception) -> str:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return f"the Parquet data is damaged after row {number} ({reason}); rows before it stand. Copy it again."


def cells(batch: Any) -> list[tuple[str, list[Any]]]:
    """Values of every column per row."""
    return [(name, _values(name, batch.column(name))) for name in batch.schema.names]


def _values(name: str, column: Any) -> list[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # Texts of the dictionary once, shared by the rows that hold them.
        words, keys = values_of(column.dictionary), column.indices.to_pylist()
        return [None if key is None else words[key] for key in keys]
    flat = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if flat and name in FLOAT_LISTS | INT_LISTS and _is_number(kind.value_type):
        return _arrays(column)
    return values_of(spelled(column))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _arrays(column: Any) -> list[Any]:
    """One array per row. Nulls inside a list become `MISSING`, for which the numbers become floats."""
    values = column.values
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    flat = values.to_numpy(zero_copy_only=False) if values.null_count == 0 else _with_missing(values)
    offsets = column.offsets.to_numpy().astype(np.int64)
    valid = column.is_valid().to_pylist()
    # Each row gets its own memory: a slice would keep the whole batch alive.
    return [flat[offsets[i] : offsets[i + 1]].copy() if valid[i] else None for i in range(len(column))]


def _with_missing(values: Any) -> NDArray[np.float64]:
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    flat: NDArray[np.float64] = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    flat[nulls] = MISSING
    return flat
