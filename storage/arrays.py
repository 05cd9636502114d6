"""Per-token arrays in the database: one blob per batch, field, group and part (`token_array`).

A field that no rollout of a part has is no row; a rollout without it has length -1. `response_tokens` (texts)
are two fields: their UTF-8 bytes end to end, and `response_token_sizes`, the bytes of each token.
Reading one rollout touches only the blobs of its own part.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy import delete as delete_from

from storage import codec
from storage.codec import ABSENT, MISSING, Encoded, decode, encode, is_missing, slot_lengths
from storage.database import BINARY, AnySession, WriteSession, upsert
from storage.models import Rollout, TokenArray

__all__ = [
    "ABSENT", "MISSING", "Corrupt", "Encoded", "by_part", "decode", "delete", "encode", "fields", "flat",
    "is_missing", "iterate", "pack_texts", "put", "put_rows", "rollout_arrays", "rows_of",
    "unpack_texts",
]  # fmt: skip

TEXTS = "response_tokens"
SIZES = "response_token_sizes"
CHUNK = 64  # blobs in memory while a whole field is read
BY_FIELD = (TokenArray.batch_id, TokenArray.field, TokenArray.group_no, TokenArray.part)
STORED = tuple(TokenArray.__table__.c)  # plain rows: nothing of a blob stays in the session

#: What may be put: arrays, or lists of texts for `response_tokens`; None where a rollout has no such field.
Values = Sequence[NDArray[Any] | Sequence[str] | None]


class Corrupt(Exception):
    """A stored array is not what was written. The message names where it is."""

    def __init__(self, batch: str, field: str, group: int, part: int, reason: str) -> None:
        super().__init__(f"batch {batch}, field {field}, group {group}, part {part}: {reason}")
        self.batch, self.field, self.group, self.part, self.reason = batch, field, group, part, reason


def put(session: WriteSession, batch_id: str, field: str, group_no: int, part: int, values: Values) -> None:
    """Store (or replace) one field of one part; `values` has one entry per slot."""
    upsert(session, TokenArray, list(rows_of(batch_id, group_no, part, {field: values})))


def put_rows(session: WriteSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store (or replace) rows of `rows_of`, of any fields and parts, in one statement."""
    upsert(session, TokenArray, rows)


def iterate(
    session: AnySession, batch_id: str, field: str, group_no: int | None = None
) -> Iterator[tuple[int, int, list[NDArray[Any] | None]]]:
    """`(group_no, part, values per slot)` in storage order, of the parts with the field. Raises Corrupt."""
    where = [TokenArray.batch_id == batch_id, TokenArray.field == field]
    if group_no is not None:
        where.append(TokenArray.group_no == group_no)
    with closing(stream(session, *where)) as rows:
        for row in rows:
            try:
                yield row.group_no, row.part, decode(encoded_of(row))
            except codec.Damaged as error:
                raise corrupt(row, error) from error


def by_part(session: AnySession, batch_id: str) -> Generator[tuple[int, int, dict[str, Row[Any]]]]:
    """`(group_no, part, field -> stored row)` in storage order, of the parts with a recorded field.

    A field's values are still as stored: `encoded_of` gives them. What estimates added is left out. Close it.
    """
    where = (TokenArray.batch_id == batch_id, TokenArray.field.not_like("%:%"))
    order = (TokenArray.batch_id, TokenArray.group_no, TokenArray.part)
    with closing(stream(session, *where, order=order)) as rows:
        for (group_no, part), members in groupby(rows, key=lambda row: (row.group_no, row.part)):
            yield group_no, part, {row.field: row for row in members}


def flat(session: AnySession, batch_id: str, field: str) -> tuple[NDArray[Any], NDArray[np.int32]] | None:
    """All values of a field end to end in storage order, and the length per rollout (-1: absent).

    None where no rollout of the batch has the field. The type is the widest of the parts'. Raises Corrupt.
    """
    where = (TokenArray.batch_id == batch_id, TokenArray.field == field)
    keys = session.execute(
        select(TokenArray.group_no, TokenArray.part, TokenArray.dtype, TokenArray.lengths).where(*where)
    ).all()
    if not keys:
        return None
    lengths = _all_lengths(session, batch_id, field, {(row.group_no, row.part): row.lengths for row in keys})
    dtype = np.result_type(*{codec.DTYPES[row.dtype] for row in keys})
    values = np.empty(int(np.maximum(lengths, 0).sum()), dtype)
    start = 0
    with closing(stream(session, *where)) as rows:
        for row in rows:
            end = start + int(np.maximum(slot_lengths(row.lengths), 0).sum())
            try:
                codec.decode_into(encoded_of(row), values[start:end])
            except codec.Damaged as error:
                raise corrupt(row, error) from error
            start = end
    return values, lengths


def rollout_arrays(
    session: AnySession, rollout: Rollout, fields: Sequence[str] | None = None
) -> dict[str, NDArray[Any] | list[str]]:
    """The arrays that this rollout has, under their field names; `response_tokens` as a list of texts.

    `fields` None: all that was recorded, not what estimates added. Absent fields are absent keys.
    Raises Corrupt.
    """
    statement = select(*STORED).where(
        TokenArray.batch_id == rollout.batch_id,
        TokenArray.group_no == rollout.group_no,
        TokenArray.part == rollout.part,
    )
    if fields is None:
        statement = statement.where(TokenArray.field.not_like("%:%"))
    else:
        wanted = [*fields, SIZES] if TEXTS in fields else list(fields)
        statement = statement.where(TokenArray.field.in_(wanted))
    found: dict[str, NDArray[Any] | list[str]] = {}
    for row in session.execute(statement, execution_options=BINARY):
        try:
            values = codec.decode_slot(encoded_of(row), rollout.slot)
        except codec.Damaged as error:
            raise corrupt(row, error) from error
        if values is not None:
            found[row.field] = values
    sizes, data = found.pop(SIZES, None), found.get(TEXTS)
    if isinstance(sizes, np.ndarray) and isinstance(data, np.ndarray):
        found[TEXTS] = _texts(data, sizes)
    return found


def fields(session: AnySession, batch_id: str) -> list[str]:
    """Names of the stored fields, sorted; `response_tokens` counts as one."""
    statement = select(TokenArray.field).where(TokenArray.batch_id == batch_id).distinct()
    return sorted(name for name in session.execute(statement).scalars() if name != SIZES)


def delete(session: WriteSession, batch_id: str, field: str) -> None:
    """Remove a field of a batch."""
    names = [TEXTS, SIZES] if field == TEXTS else [field]
    session.execute(
        delete_from(TokenArray).where(TokenArray.batch_id == batch_id, TokenArray.field.in_(names))
    )


def pack_texts(values: Sequence[Sequence[str] | None]) -> tuple[codec.Values, codec.Values]:
    """Token texts as bytes and sizes. Lone surrogates (half a character in one token) are kept."""
    encoded = [None if v is None else [text.encode("utf-8", "surrogatepass") for text in v] for v in values]
    data = [None if v is None else np.frombuffer(b"".join(v), np.uint8) for v in encoded]
    sizes = [None if v is None else np.array([len(text) for text in v], np.int32) for v in encoded]
    return data, sizes


def unpack_texts(data: codec.Values, sizes: codec.Values) -> list[list[str] | None]:
    """The inverse of `pack_texts`."""
    return [None if d is None or s is None else _texts(d, s) for d, s in zip(data, sizes, strict=True)]


def stream(
    session: AnySession, *where: ColumnElement[bool], order: Sequence[Any] = BY_FIELD
) -> Generator[Row[Any]]:
    """Stored arrays with all their columns, a few at a time, by batch, field and storage order. Close it."""
    result = session.execute(
        select(*STORED).where(*where).order_by(*order), execution_options={**BINARY, "yield_per": CHUNK}
    )
    try:
        yield from result
    finally:
        result.close()


def encoded_of(row: Row[Any]) -> Encoded:
    """The stored bytes of a row of `stream`."""
    return Encoded(row.codec, row.dtype, row.lengths, row.checksum, row.data)


def corrupt(row: Row[Any], error: Exception) -> Corrupt:
    return Corrupt(row.batch_id, row.field, row.group_no, row.part, str(error))


def _texts(data: NDArray[Any], sizes: NDArray[Any]) -> list[str]:
    raw, ends = data.tobytes(), np.cumsum(sizes, dtype=np.int64).tolist()
    pieces = [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    # Few of them differ: a vocabulary is much smaller than a long text.
    texts = {piece: piece.decode("utf-8", "surrogatepass") for piece in set(pieces)}
    return [texts[piece] for piece in pieces]


def rows_of(
    batch_id: str, group_no: int, part: int, arrays: Mapping[str, Values], level: int = codec.SMALL
) -> Iterator[dict[str, Any]]:
    """The rows that hold these fields of a part, packed; `level`: `SMALL` or `QUICK` of `storage.codec`."""
    for field, values in arrays.items():
        for name, plain in _plain(field, values):
            if all(array is None for array in plain):
                continue
            e = encode(plain, level)
            yield {
                "batch_id": batch_id, "field": name, "group_no": group_no, "part": part, "codec": e.codec,
                "dtype": e.dtype, "lengths": e.lengths, "checksum": e.checksum, "data": e.data,
            }  # fmt: skip


def _plain(field: str, values: Values) -> list[tuple[str, codec.Values]]:
    if field == TEXTS:
        texts = [None if isinstance(v, np.ndarray) else v for v in values]
        if any(t is None and v is not None for t, v in zip(texts, values, strict=True)):
            raise ValueError(f"{field} takes lists of texts")
        data, sizes = pack_texts(texts)
        return [(TEXTS, data), (SIZES, sizes)]
    arrays = [v if isinstance(v, np.ndarray) else None for v in values]
    if any(a is None and v is not None for a, v in zip(arrays, values, strict=True)):
        raise ValueError(f"{field} takes numpy arrays")
    return [(field, arrays)]


def _all_lengths(
    session: AnySession, batch_id: str, field: str, stored: Mapping[tuple[int, int], bytes]
) -> NDArray[np.int32]:
    """Lengths of all rollouts of the batch, -1 for the parts that do not have the field."""
    sizes = session.execute(
        select(Rollout.group_no, Rollout.part, func.count())
        .where(Rollout.batch_id == batch_id)
        .group_by(Rollout.group_no, Rollout.part)
        .order_by(Rollout.group_no, Rollout.part)
    ).all()
    parts = []
    for group_no, part, size in sizes:
        raw = stored.get((group_no, part))
        if raw is not None and len(raw) != 4 * size:
            reason = f"has lengths of {len(raw)} bytes for {size} rollouts"
            raise Corrupt(batch_id, field, group_no, part, reason)
        parts.append(np.full(size, ABSENT, np.int32) if raw is None else slot_lengths(raw))
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
