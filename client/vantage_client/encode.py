"""A step's columns as the bytes of one upload: canonical safetensors, or JSON lines where those do not do.

Arrays go as they are: nothing is padded, cut or rounded. What cannot stand in an array (texts, fields that
some rollouts lack) goes into the rows that the file's metadata hold.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vantage_client.columns import PER_TOKEN, Columns, plain

#: safetensors refuses headers above 100 MB; a step with more text than this goes as JSON lines.
MOST_HEADER = 64 << 20
DTYPES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8",
    "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip
Array = NDArray[Any]
Header = Mapping[str, Any]


def encode(count: int, columns: Columns, header: Header) -> tuple[str, Iterator[bytes]]:
    """(ending of the file's name, its bytes in pieces). `header`: metadata of the batch."""
    said = {"schema": "rollout-batch", "version": 1, **header}
    columns = dict(columns)
    lengths = columns.pop("response_lengths", None)
    pieces = {name: _pieces(columns[name], count, lengths) for name in PER_TOKEN if name in columns}
    arrays, offsets = _flat(pieces, count)
    if offsets is None:
        return "jsonl", _lines(count, _rows(count, columns, pieces, ()), said)
    arrays["response_offsets"] = offsets
    arrays |= _prompts(columns, count)
    arrays |= _numbers(columns, count)
    rows = json.dumps(_rows(count, columns, pieces, arrays))
    if len(rows) > MOST_HEADER:
        return "jsonl", _lines(count, _rows(count, columns, pieces, ()), said)
    metadata = {"rollout_batch": json.dumps(said), "rows": rows}
    return "safetensors", _safetensors(arrays, metadata)


def _pieces(column: Any, count: int, lengths: Any) -> list[Array | None]:
    """One array per rollout, None where it has none; rows of a padded array end where `lengths` says."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and lengths is not None:
        return [column[i, : int(lengths[i])] for i in range(count)]
    return [None if value is None else np.asarray(value) for value in column]


def _flat(pieces: Mapping[str, list[Array | None]], count: int) -> tuple[dict[str, Array], Array | None]:
    """The fields that every rollout has in full, end to end; and where each rollout begins."""
    arrays: dict[str, Array] = {}
    lengths: list[int] | None = None
    for name, values in pieces.items():
        if not count or any(value is None or value.ndim != 1 for value in values):
            continue
        own = [len(value) for value in values if value is not None]
        if lengths is not None and own != lengths:
            continue
        flat = _stored(np.concatenate([value for value in values if value is not None]))
        if flat is None:
            continue
        lengths = own
        arrays[name] = flat
    offsets = None if lengths is None else np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return arrays, offsets


def _stored(array: Array) -> Array | None:
    """The array in a type that the file has: ids as int32 where they fit. None where it holds no numbers."""
    if array.dtype.newbyteorder("<").str not in DTYPES:
        return None
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        small = array.min() >= -(2**31) and array.max() < 2**31
        return array.astype(np.int32 if small else np.int64)
    return array


def _prompts(columns: Columns, count: int) -> dict[str, Array]:
    """`prompt_ids` end to end with their offsets, where every rollout has them."""
    given, lengths = columns.get("prompt_ids"), columns.pop("prompt_lengths", None)
    if given is None:
        return {}
    values = _pieces(given, count, lengths)
    columns["prompt_ids"] = values
    if any(value is None or value.ndim != 1 for value in values):
        return {}
    arrays = [value for value in values if value is not None]
    flat = _stored(np.concatenate(arrays))
    if flat is None or flat.dtype.kind == "f":
        return {}
    offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
    return {"prompt_ids": flat, "prompt_offsets": offsets}


def _numbers(columns: Columns, count: int) -> dict[str, Array]:
    """Columns of one number per rollout."""
    found = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray) and column.shape == (count,) and column.dtype.kind in "iufb":
            found[name] = column
    return found


def _rows(
    count: int, columns: Columns, pieces: Mapping[str, list[Array | None]], arrays: Any
) -> list[dict[str, Any]]:
    """What is not in `arrays`, as one object per rollout."""
    rest = {name: pieces.get(name, column) for name, column in columns.items() if name not in arrays}
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, column in rest.items():
        for row, value in zip(rows, column, strict=True):
            if value is not None:
                row[name] = plain(value)
    return rows


def _lines(count: int, rows: list[dict[str, Any]], header: Header) -> Iterator[bytes]:
    yield json.dumps({"_header": header}).encode() + b"\n"
    for row in rows:
        yield json.dumps(row).encode() + b"\n"


def _safetensors(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Iterator[bytes]:
    ordered = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    # The widest first: every array then begins at a multiple of its own width.
    ordered = dict(sorted(ordered.items(), key=lambda item: -item[1].dtype.itemsize))
    entries: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name, array in ordered.items():
        little = array.dtype.newbyteorder("<")
        ordered[name] = array = array.astype(little, copy=False)
        end = start + array.nbytes
        kind = DTYPES[array.dtype.str]
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for array in ordered.values():
        yield from _blocks(array)


def _blocks(array: Array, size: int = 1 << 22) -> Iterator[bytes]:
    data = array.reshape(-1).view(np.uint8)
    for at in range(0, len(data), size):
        yield data[at : at + size].tobytes()
