"""Canonical rows as a file for other tools: JSON lines, Parquet, Arrow or npz."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import Unprocessable
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS

ROWS = 256  # of one record batch
COMPUTED = ("computed_advantages", "computed_advantages_raw", "computed_returns")
INTEGERS = ("response_ids", PROMPT_FIELD)
Row = dict[str, Any]

#: Columns of every table, in this order. What may be of any form (messages, extras) is JSON as text.
SCHEMA = pa.schema(
    [
        *(
            (name, pa.int64())
            for name in ("step", "sample_index", "policy_version", "segment", "rank", "micro_batch")
        ),
        *(
            (name, pa.string())
            for name in ("split", "group_id", "sample_id", "data_source", "rollout_id", "finish_reason")
        ),
        *((name, pa.string()) for name in ("prompt", "response", "messages", "ground_truth", "extra")),
        *((name, pa.bool_()) for name in ("truncated", "terminated")),
        *((name, pa.float64()) for name in ("reward", "advantage", "reward_baseline", "bootstrap_value")),
        ("reward_components", pa.map_(pa.string(), pa.float64())),
        ("response_tokens", pa.list_(pa.string())),
        *((name, pa.list_(pa.int64())) for name in INTEGERS),
        ("response_mask", pa.list_(pa.uint8())),
        *(
            (name, pa.list_(pa.float64()))
            for name in (*TOKEN_FIELDS, *COMPUTED)
            if name not in (*INTEGERS, "response_mask")
        ),
    ]
)
FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def write(path: Path, format: str, lines: Iterable[bytes]) -> int:
    """Write the rows (JSON lines with a header first) in the format; how many rows. Raises Unprocessable."""
    return WRITERS[format](path, lines)


def jsonl(path: Path, lines: Iterable[bytes]) -> int:
    count = -1
    with open(path, "wb") as file:
        for line in lines:
            file.write(line)
            count += 1
    return max(count, 0)


def parsed(lines: Iterable[bytes]) -> tuple[Row, Iterator[Row]]:
    """(header, rows with their non-finite numbers in place)."""
    found = map(json.loads, lines)
    first: Row = next(found, {})
    rows = found if "_header" in first else itertools.chain([first], found)
    return dict(first.get("_header", {})), map(restored, rows)


def restored(row: Row) -> Row:
    for name, label in (row.pop("_nonfinite", None) or {}).items():
        if isinstance(label, Mapping):
            for place, one in label.items():
                row[name][int(place)] = FLOATS[one]
        else:
            row[name] = FLOATS[label]
    return row


def record_batches(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    while some := list(itertools.islice(rows, ROWS)):
        arrays = [
            pa.array([cell(row.get(field.name), field.type) for row in some], field.type) for field in SCHEMA
        ]
        yield pa.record_batch(arrays, schema=SCHEMA)


def cell(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value)
    return value


def described(header: Row) -> pa.Schema:
    return SCHEMA.with_metadata({"rollout_batch": json.dumps(header)})


def parquet(path: Path, lines: Iterable[bytes]) -> int:
    header, rows = parsed(lines)
    count = 0
    with pq.ParquetWriter(path, described(header), compression="zstd") as writer:
        for batch in record_batches(rows):
            writer.write_batch(batch.replace_schema_metadata(described(header).metadata))
            count += batch.num_rows
    return count


def arrow(path: Path, lines: Iterable[bytes]) -> int:
    header, rows = parsed(lines)
    count = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, described(header)) as writer:
        for batch in record_batches(rows):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def npz(path: Path, lines: Iterable[bytes]) -> int:
    """Ragged arrays with `response_offsets`, texts as unicode arrays. A value that a row lacks is NaN, a mask
    1. Raises Unprocessable where the rows have no tokens."""
    header, found = parsed(lines)
    rows = list(found)
    lengths = [len(row["response_ids"]) if "response_ids" in row else per_token(row) for row in rows]
    if not any(lengths):
        raise Unprocessable("The rows have no tokens, which npz is made of. Export them as parquet or jsonl.")
    arrays: dict[str, Any] = {"response_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}
    for name in (*TOKEN_FIELDS, *COMPUTED):
        if any(name in row for row in rows):
            arrays |= flat(name, rows, lengths)
    for field in SCHEMA:
        name = field.name
        if pa.types.is_string(field.type) and any(name in row for row in rows):
            arrays[name] = np.array([cell(row.get(name, ""), field.type) or "" for row in rows])
        elif pa.types.is_float64(field.type) and any(name in row for row in rows):
            arrays[name] = np.array(
                [np.nan if (v := row.get(name)) is None else v for row in rows], np.float64
            )
        elif pa.types.is_int64(field.type) and all(name in row for row in rows):
            arrays[name] = np.array([row[name] for row in rows], np.int64)
    np.savez_compressed(path, metadata=np.array(json.dumps(header)), **arrays)
    return len(rows)


def per_token(row: Row) -> int:
    return max((len(row[name]) for name in (*TOKEN_FIELDS, *COMPUTED) if name in row), default=0)


def flat(name: str, rows: Sequence[Row], lengths: Sequence[int]) -> dict[str, Any]:
    """A field's values end to end; ids that some rows lack cannot be said, and are left out."""
    if name in INTEGERS:
        whole = all(name in row for row in rows)
        return {name: np.concatenate([np.asarray(row[name], np.int64) for row in rows])} if whole else {}
    fill = 1.0 if name == "response_mask" else np.nan
    pieces = []
    for row, length in zip(rows, lengths, strict=True):
        own = np.array([np.nan if v is None else v for v in row.get(name, ())], np.float64)
        pieces.append(own if len(own) == length else np.full(length, fill))
    joined = np.concatenate(pieces)
    return {name: joined.astype(np.uint8) if name == "response_mask" else joined}


WRITERS = {"jsonl": jsonl, "parquet": parquet, "arrow": arrow, "npz": npz}
