"""Canonical rows as a file for other tools: JSON lines, Parquet, Arrow, npz or CSV."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app import npz, spreadsheet
from app.errors import Unprocessable
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS

#: Of one record batch, whichever is reached first: rows, and values and characters in them.
ROWS, VALUES = 256, 1 << 20
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
    for some in batched(rows):
        arrays = [
            pa.array([cell(row.get(field.name), field.type) for row in some], field.type) for field in SCHEMA
        ]
        yield pa.record_batch(arrays, schema=SCHEMA)


def batched(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows together as long as they stay small: a row may have a hundred thousand values."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, (str, list, dict)))
        if len(some) == ROWS or size >= VALUES:
            yield some
            some, size = [], 0
    if some:
        yield some


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


def npz_archive(path: Path, lines: Iterable[bytes]) -> int:
    """Ragged arrays with `response_offsets`, texts as unicode arrays. A value that a row lacks is NaN, a mask
    1; ids and whole numbers that some row lacks are left out. Raises Unprocessable where the rows have no
    tokens."""
    header, rows = parsed(lines)
    count = tokens = 0
    with npz.growing(path) as grown:
        grown.add("response_offsets", npz.INTEGER, [0], 1, 0)
        for row in rows:
            length = len(row["response_ids"]) if "response_ids" in row else per_token(row)
            for name in (*TOKEN_FIELDS, *COMPUTED):
                add_tokens(grown, name, row, length, tokens)
            for field in SCHEMA:
                add_value(grown, field, row, count)
            count, tokens = count + 1, tokens + length
            grown.add("response_offsets", npz.INTEGER, [tokens], 1, count)
        if not tokens:
            raise Unprocessable(
                "The rows have no tokens, which npz is made of. Export them as parquet or jsonl."
            )
        npz.write(path, header, grown)
    return count


def per_token(row: Row) -> int:
    return max((len(row[name]) for name in (*TOKEN_FIELDS, *COMPUTED) if name in row), default=0)


def add_tokens(grown: npz.Growing, name: str, row: Row, length: int, before: int) -> None:
    """A per-token field of a row of so many tokens, `before` tokens having been added."""
    kind = npz.INTEGER if name in INTEGERS else npz.MASK if name == "response_mask" else npz.FLOAT
    given = row.get(name)
    if name in row and kind != npz.INTEGER and len(given or ()) != length:
        given = [npz.FILL[kind]] * length
    grown.add(name, kind, given, length, before)


def add_value(grown: npz.Growing, field: pa.Field, row: Row, before: int) -> None:
    """A column of a row that is one text or number, `before` rows having been added."""
    name, given = field.name, row.get(field.name)
    if pa.types.is_string(field.type):
        grown.add(name, npz.TEXT, [cell(given, field.type) or ""] if name in row else None, 1, before)
    elif pa.types.is_float64(field.type):
        grown.add(name, npz.FLOAT, [given] if name in row else None, 1, before)
    elif pa.types.is_int64(field.type):
        grown.add(name, npz.INTEGER, None if given is None else [given], 1, before)


def csv(path: Path, lines: Iterable[bytes]) -> int:
    _, rows = parsed(lines)
    return spreadsheet.write(path, SCHEMA.names, rows)


WRITERS = {"jsonl": jsonl, "parquet": parquet, "arrow": arrow, "npz": npz_archive, "csv": csv}
