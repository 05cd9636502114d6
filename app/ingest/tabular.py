"""Anything tabular as columns and rows: CSV, rows of JSON, Parquet, tables in JSON."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import simdjson

from app.ingest import arrow, csv_rows, jsonl, parquet, tables
from app.ingest.json_rows import NotJson, TooDeep, parse
from app.ingest.notes import Notes
from app.ingest.record import Problem, Source, Unreadable
from app.settings import Settings

MEMO = "table"
PEEK = 50
MOST_COLUMNS = 2000
CSV, JSON, PARQUET, ARROW, TABLE = "csv", "json", "parquet", "arrow", "table"


@dataclass(frozen=True, slots=True)
class Look:
    """The beginning of a table: its `columns` in the file's order and its first rows."""

    kind: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    separator: str = ""

    @property
    def shape(self) -> str:
        """The same for files with the same set of columns, in whatever order."""
        return hashlib.sha256(json.dumps(sorted(self.columns)).encode()).hexdigest()[:32]

    @property
    def written(self) -> str:
        """How the table is written, for a sentence."""
        if self.kind == CSV:
            return f"a CSV separated by {csv_rows.NAMES[self.separator]}"
        return {JSON: "rows of JSON", PARQUET: "Parquet", ARROW: "an Arrow table", TABLE: "a table in JSON"}[
            self.kind
        ]


def look(source: Source, settings: Settings) -> Look | None:
    """What kind of table the file is, from its beginning; None for other files. Looked at once per source."""
    if MEMO not in source.memo:
        source.memo[MEMO] = _look(source, settings)
    found: Look | None = source.memo[MEMO]
    return found


def _look(source: Source, settings: Settings) -> Look | None:
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        if source.head.startswith(parquet.MAGIC):
            return _parquet(source, settings)
        if (columns := arrow.columns(source)) is not None:
            rows = [fields for _, fields in islice(arrow.rows(source, settings), PEEK)]
            unique = len(set(columns)) == len(columns)
            return _checked(Look(ARROW, columns, tuple(rows))) if unique else None
        if names := tables.columns(source, settings):
            listed = islice(tables.rows(source, settings), PEEK)
            return _checked(Look(TABLE, tuple(names), tuple(row for row in listed if row is not None)))
        if head.startswith((b"{", b"[")):
            return _json(source, settings)
        return _csv(source)
    except Unreadable:
        return None


def _checked(found: Look) -> Look | None:
    return found if found.rows and 0 < len(found.columns) <= MOST_COLUMNS else None


def _parquet(source: Source, settings: Settings) -> Look | None:
    with parquet.opened(source) as file:
        if file.metadata.num_rows > settings.max_rows:
            return None
    table = parquet.checked(source, settings)
    rows = tuple(fields for _, fields in islice(parquet.rows(table, source), PEEK))
    return _checked(Look(PARQUET, tuple(table.columns), rows))


def _json(source: Source, settings: Settings) -> Look | None:
    rows, failed = [], 0
    for item in islice(_objects(source, settings, {}), PEEK):
        if isinstance(item[1], dict):
            rows.append(item[1])
        else:
            failed += item[1].row is not None
    rows = [row for row in rows if set(row) != {"_header"}]
    if failed > len(rows):
        return None
    return _checked(Look(JSON, tuple(dict.fromkeys(name for row in rows for name in row)), tuple(rows)))


def _csv(source: Source) -> Look | None:
    if b"\0" in source.head or not source.head.strip():
        return None
    separator = csv_rows.separator_of(source)
    if separator is None:
        return None
    first = list(islice(csv_rows.records(source, separator), PEEK + 1))
    names = csv_rows.columns(first[0].cells)
    fitting = [record.cells for record in first[1:] if len(record.cells) == len(names)]
    return _checked(
        Look(CSV, names, tuple(dict(zip(names, cells, strict=True)) for cells in fitting), separator)
    )


Row = tuple[int, dict[str, Any] | Problem]


def rows(
    source: Source, found: Look, settings: Settings, lists: Mapping[str, str], notes: Notes
) -> Iterator[Row]:
    """Each row's number from 1, and its fields or why it was not taken. `lists`: see `json_rows.parse`."""
    if found.kind == CSV:
        yield from _csv_rows(source, found, notes)
    elif found.kind == PARQUET:
        yield from parquet.rows(parquet.checked(source, settings), source)
    elif found.kind == ARROW:
        yield from arrow.rows(source, settings)
    elif found.kind == TABLE:
        for number, row in enumerate(tables.rows(source, settings), start=1):
            yield number, _refused(number, "it has another number of entries") if row is None else row
    else:
        for number, fields in _objects(source, settings, lists):
            if isinstance(fields, Problem) or set(fields) != {"_header"}:
                yield number, fields


def _refused(number: int, why: str) -> Problem:
    return Problem(f"row {number}: {why}; the row was not taken", "bad_row", "error", number)


def _csv_rows(source: Source, found: Look, notes: Notes) -> Iterator[Row]:
    width = len(found.columns)
    for record in csv_rows.records(source, found.separator):
        if record.number == 0:
            continue
        if record.bad_bytes:
            message = "bytes that are not UTF-8 are shown as \ufffd; save the file as UTF-8"
            notes.tally(record.number, None, "invalid_utf8", message, "warning")
        if record.problem is not None:
            yield record.number, _refused(record.number, record.problem)
        elif len(record.cells) != width:
            why = f"it has {len(record.cells)} cells, the header has {width}"
            yield record.number, _refused(record.number, why)
        else:
            yield record.number, dict(zip(found.columns, record.cells, strict=True))


def _objects(source: Source, settings: Settings, lists: Mapping[str, str]) -> Iterator[Row]:
    parser = simdjson.Parser()
    for line in jsonl.rows(source, settings):
        if line.fault is not None:
            yield line.number, line.fault
        if not line.data:
            continue
        if line.too_long:
            yield line.number, _refused(line.number, "it is too long (VANTAGE_MAX_LINE_BYTES)")
            continue
        try:
            fields = parse(parser, line.data, settings.max_depth, lists).fields
        except TooDeep:
            yield line.number, _refused(line.number, f"it is nested deeper than {settings.max_depth}")
        except NotJson as error:
            yield line.number, _refused(line.number, f"it is no JSON object ({error})")
        else:
            yield line.number, fields
