"""Tables as W&B writes them to disk: *.table.json, {"columns": […], "data": [[…], …]}, with bare NaN.

The rows come one by one; what a row is, the formats say by the names of the columns.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import documents
from app.ingest.record import Source, Unreadable
from app.settings import Settings

MEMO = "table_columns"
MOST_COLUMNS = 10_000


def columns(source: Source, settings: Settings) -> tuple[str, ...]:
    """The names of a table's columns, from the beginning of the file; () for other files."""
    if MEMO not in source.memo:
        source.memo[MEMO] = _columns(source, settings)
    found: tuple[str, ...] = source.memo[MEMO]
    return found


def _columns(source: Source, settings: Settings) -> tuple[str, ...]:
    if not {"columns", "data"} <= set(documents.keys(source)) or not documents.is_document(source):
        return ()
    try:
        for member in documents.members(source, settings, streamed=("data",)):
            if member.key == "columns":
                value = documents.value(member, settings)
                names = isinstance(value, list) and len(value) <= MOST_COLUMNS
                return tuple(map(str, value)) if names else ()
    except Unreadable:
        pass
    return ()


def rows(source: Source, settings: Settings) -> Iterator[dict[str, Any] | None]:
    """Each row by the names of its columns; None for one that has another number of entries."""
    names = columns(source, settings)
    for member in documents.members(source, settings, streamed=("data",)):
        if member.key == "data" and member.number:
            value = documents.value(member, settings)
            whole = isinstance(value, list) and len(value) == len(names)
            yield dict(zip(names, value, strict=True)) if whole else None
