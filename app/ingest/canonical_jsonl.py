"""Canonical JSONL: one object per row, an optional first line {"_header": {…}}; or one JSON array of rows."""

from collections.abc import Iterator
from typing import Any

from app.ingest import canonical, jsonl
from app.ingest.looks import looks_like
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

#: Any of these makes a row canonical enough to try; each row is still judged by itself.
MARKS = ("_header", "response", "response_ids", "response_tokens")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and looks_like(row) is None and any(mark in row for mark in MARKS)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    yield from jsonl.read(source, settings, _convert, Header())


def _convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
    return canonical.rollout(row, fields, header.get("alignment"), notes)


FORMAT = Format("canonical-jsonl", "Canonical rollout rows, JSONL", sniff, read)
