"""CSV, TSV and their like: the separator told from the rows, memory for one row at a time."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice

from app.ingest.column_names import NAMES as NAMES_OF_FIELDS
from app.ingest.column_names import normal, shown
from app.ingest.record import Source

SEPARATORS = (",", ";", "\t", "|")
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: Longest row in characters. A quote that nobody closes swallows the rows after it.
MOST_ROW = 16 << 20
PEEK = 50
MOST_COLUMNS = 2000
_ESCAPED = re.compile("[\udc80-\udcff]")

csv.field_size_limit(MOST_ROW)


@dataclass(frozen=True, slots=True)
class Record:
    """One row behind the header, `number` from 1. `problem` says why it has no cells; `bad_bytes`: some were
    not UTF-8 and became U+FFFD."""

    number: int
    cells: list[str]
    problem: str | None = None
    bad_bytes: bool = False


class _Lines:
    """Lines of the text, none and no row longer than MOST_ROW."""

    def __init__(self, text: TextIOWrapper) -> None:
        self._text = text
        self.row = 0  # characters since the last row ended
        self.too_long = False

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(MOST_ROW):
            self.row += len(line)
            if self.row > MOST_ROW or (len(line) == MOST_ROW and not line.endswith(("\n", "\r"))):
                self.too_long = True
                return
            yield line


def records(source: Source, separator: str) -> Iterator[Record]:
    """The header as row 0, then the rows; blank lines are passed over."""
    with source.open() as stream:
        text = TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        lines = _Lines(text)
        reader = csv.reader(iter(lines), delimiter=separator, strict=True)
        number = 0
        while True:
            lines.row = 0
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield Record(number, [], _sentence(str(error), lines))
                number += 1
                continue
            if lines.too_long:
                yield Record(number, [], _sentence("", lines))
                return
            if cells is None:
                return
            if cells and any(cells):
                yield _record(number, cells)
                number += 1


def _sentence(reason: str, lines: _Lines) -> str:
    if lines.too_long:
        return f"longer than {MOST_ROW:,} characters: probably a quote is opened and never closed"
    if "end of data" in reason:
        return "incomplete: the file ends inside a quoted cell"
    return f"its quotes cannot be understood ({reason})"


def _record(number: int, cells: list[str]) -> Record:
    if not any(map(_ESCAPED.search, cells)):
        return Record(number, cells)
    return Record(number, [_ESCAPED.sub("\ufffd", cell) for cell in cells], None, True)


def separator_of(source: Source) -> str | None:
    """The separator that gives the first rows as many cells as the header has; None where none does.

    Nine of ten rows have to fit, or one where the header names a response: prose has commas, too.
    """
    best: tuple[int, str] | None = None
    for separator in SEPARATORS:
        rows = list(islice(records(source, separator), PEEK + 1))
        if len(rows) < 2 or rows[0].problem or not _is_header(rows[0].cells):
            continue
        width = len(rows[0].cells)
        fitting = sum(len(row.cells) == width for row in rows[1:] if row.problem is None)
        due = 1 if _names_response(rows[0].cells) else -(-9 * (len(rows) - 1) // 10)
        if fitting >= due and (best is None or width > best[0]):
            best = (width, separator)
    return None if best is None else best[1]


def damage(source: Source) -> str | None:
    """What is wrong with a table whose header names a response and that has no row to read, as a sentence."""
    for separator in SEPARATORS:
        rows = list(islice(records(source, separator), 2))
        if not rows or rows[0].problem or len(rows[0].cells) < 2 or not _names_response(rows[0].cells):
            continue
        kind = f"this is a table separated by {NAMES[separator]}"
        named = Counter(cell.strip() for cell in rows[0].cells if cell.strip())
        if twice := [shown(name) for name, count in named.items() if count > 1]:
            again = " and ".join(twice[:3])
            return f"{kind} with {again} more than once in its header; give each column a name of its own."
        if len(rows) < 2:
            return f"{kind} with a header and no rows."
        why = rows[1].problem or f"it has {len(rows[1].cells)} cells, the header has {len(rows[0].cells)}"
        return f"{kind}, but none of its first rows can be read: row 1: {why}."
    return None


def _names_response(cells: list[str]) -> bool:
    return any(normal(cell) in NAMES_OF_FIELDS["response"] for cell in cells)


def _is_header(cells: list[str]) -> bool:
    """Names, not values: several, short, none twice, not all of them numbers."""
    named = [cell.strip() for cell in cells if cell.strip()]
    return (
        1 < len(cells) <= MOST_COLUMNS
        and len(set(named)) == len(named)
        and len(named) >= len(cells) - 1
        and all(len(cell) <= 200 for cell in named)
        and not all(re.fullmatch(r"[-+.,\deE]+", cell) for cell in named)
    )


def columns(cells: list[str]) -> tuple[str, ...]:
    """The header's names; one without a name (an index that pandas wrote) is called by its place."""
    return tuple(cell.strip() or f"column {place}" for place, cell in enumerate(cells, start=1))
