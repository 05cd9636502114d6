"""Canonical Parquet: columns named and typed as in the schema; metadata under the key `rollout_batch`."""

import json
from collections.abc import Iterator
from typing import Any

from app.ingest import canonical, parquet
from app.ingest.looks import looks_like_columns
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Source
from app.settings import Settings

METADATA = b"rollout_batch"
MARKS = frozenset(("response", "response_ids", "response_tokens"))


def sniff(source: Source, settings: Settings) -> bool:
    names = parquet.columns(source)
    return names is not None and bool(names & MARKS) and looks_like_columns(names) is None


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    table = parquet.checked(source, settings)
    header = Header(raw=batch_metadata(table.metadata.get(METADATA), notes))
    yield header
    yield from notes.drain()
    for number, fields in parquet.rows(table, source):
        item = canonical.rollout(number, _plain(fields), header.raw.get("alignment"), notes)
        yield from notes.drain()
        yield item
    yield from notes.summary()


def batch_metadata(text: bytes | str | None, notes: Notes) -> dict[str, Any]:
    """The metadata of the batch from its JSON text; a problem is said where it is none."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        notes.warn(None, None, "bad_metadata", "the batch metadata is not a JSON object; ignored")
        return {}
    return value


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Messages without the empty keys that a Parquet struct adds to every one of them."""
    for name in ("messages", "prompt", "response"):
        value = fields.get(name)
        if isinstance(value, list):
            fields[name] = [without_nulls(item) for item in value]
    return fields


def without_nulls(message: Any) -> Any:
    """A struct's value without its null entries."""
    if not isinstance(message, dict):
        return message
    return {key: value for key, value in message.items() if value is not None}


FORMAT = Format("canonical-parquet", "Canonical rollout rows, Parquet", sniff, read)
