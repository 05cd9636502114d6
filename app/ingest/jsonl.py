"""Reading a text file of JSON rows: what every JSONL format shares. A format says what to make of one row."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from typing import Any

import simdjson

from app.ingest import documents
from app.ingest.json_rows import LISTS, NotJson, Row, TooDeep, parse
from app.ingest.lines import BOM, Line, elements, lines
from app.ingest.notes import Notes
from app.ingest.record import HEAD, Header, Item, Problem, Rollout, Source
from app.settings import Settings

Fields = dict[str, Any]
#: Makes a rollout of a row's fields, or the error that rejects it; sees the file's header.
Convert = Callable[[int, dict[str, Any], dict[str, Any], Notes], Rollout | Problem]
#: The same for lines that hold several rollouts: each numbered, from the number given on.
ConvertMany = Callable[[int, dict[str, Any], dict[str, Any], Notes], Iterator[Rollout | Problem]]

PEEK_LINES = 1000  # lines of a log
PEEK_ROWS = 50  # objects that are no rollouts
#: Keys of a row by which a format can be told.
ANSWERS = frozenset((
    "_header", "response", "response_ids", "response_tokens", "output", "completion", "token_ids", "tokens",
    "traces", "responses", "output_response", "trajectory_data", "total_reward", "trackio",
))  # fmt: skip
SHOWN = 60
MEMO = "first_row"


def rows(source: Source, settings: Settings) -> Iterator[Line]:
    """The lines of the file, or the elements of its JSON array."""
    with opened(source) as stream:
        split = elements if is_array(source.head) else lines
        yield from split(stream, settings.max_line_bytes)


def opened(source: Source) -> BufferedReader:
    """The file from its start; a small one is in memory already."""
    if len(source.head) < HEAD:
        return BufferedReader(BytesIO(source.head))
    return source.open()


def is_array(head: bytes) -> bool:
    """Whether the file is one JSON array of objects."""
    text = head.removeprefix(BOM).lstrip()
    return text[:1] == b"[" and text[1:].lstrip()[:1] in (b"{", b"")


def first_row(source: Source, settings: Settings) -> dict[str, Any] | None:
    """What the file is judged by: its first row with a response (or header), else its first object, if any.

    Lines of a log, or objects of another kind, may stand before the rows. Looked for once per source.
    """
    if MEMO not in source.memo:
        source.memo[MEMO] = _first_row(source, settings)
    found: dict[str, Any] | None = source.memo[MEMO]
    return found


def _first_row(source: Source, settings: Settings) -> dict[str, Any] | None:
    first, seen = None, 0
    if b"\n" not in source.head and any(marks <= set(documents.keys(source)) for marks in documents.STREAMED):
        return None  # a long line is parsed whole; these are read element by element
    for fields in _objects(source, settings):
        if not ANSWERS.isdisjoint(fields):
            return fields
        first, seen = first or fields, seen + 1
        if seen >= PEEK_ROWS:
            break
    return first


def _objects(source: Source, settings: Settings) -> Iterator[dict[str, Any]]:
    """The JSON objects among the first lines."""
    parser = simdjson.Parser()
    for count, line in enumerate(rows(source, settings)):
        if count >= PEEK_LINES:
            return
        if line.too_long or not line.data:
            continue
        try:
            fields = parse(parser, line.data, settings.max_depth).fields
        except (NotJson, TooDeep):
            continue
        yield fields


def read(
    source: Source,
    settings: Settings,
    convert: Convert,
    header: Header,
    lists: Mapping[str, str] = LISTS,
) -> Iterator[Item]:
    """A header, then rollouts and problems row by row, then what there is to say about the whole file.

    `lists`: see `json_rows.parse`.
    """
    reader = _Reader(Notes(), settings, header, lists)
    parser = simdjson.Parser()
    for line in rows(source, settings):
        yield from reader.row(parser, line, convert)
    yield from _end(source, reader)


def read_many(
    source: Source,
    settings: Settings,
    convert: ConvertMany,
    header: Header,
    lists: Mapping[str, str] = LISTS,
) -> Iterator[Item]:
    """As `read`, for lines that hold several rollouts: rows are counted over the rollouts of all lines."""
    reader = _Reader(Notes(), settings, header, lists)
    parser, next_row = simdjson.Parser(), 1
    for line in rows(source, settings):
        for item in reader.many(parser, replace(line, number=next_row), convert):
            next_row += isinstance(item, Rollout) or (isinstance(item, Problem) and item.severity == "error")
            yield item
    yield from _end(source, reader)


def _end(source: Source, reader: "_Reader") -> Iterator[Item]:
    if not reader.began:
        yield reader.header
    if source.head.startswith(BOM):
        reader.notes.warn(
            None, None, "byte_order_mark", "the file begins with a byte order mark; skipped", "info"
        )
        yield from reader.notes.drain()
    yield from reader.end()


@dataclass(slots=True)
class _Reader:
    notes: Notes
    settings: Settings
    header: Header
    lists: Mapping[str, str]
    began: bool = False
    taken: int = 0
    cut: Problem | None = None

    def row(self, parser: Any, line: Line, convert: Convert) -> Iterator[Item]:
        def one(row: int, fields: Fields, header: Fields, notes: Notes) -> Iterator[Rollout | Problem]:
            yield convert(row, fields, header, notes)

        return self.many(parser, line, one)

    def many(self, parser: Any, line: Line, convert: ConvertMany) -> Iterator[Item]:
        """The rollouts and problems of one line, the header before those of the first."""
        self._nul_bytes(line)
        if not line.data:
            yield from self.notes.drain()
            if line.fault is not None:
                yield line.fault
            return
        fields = self._fields(parser, line)
        if not self.began:
            self.began = True
            if (
                isinstance(fields, dict)
                and set(fields) == {"_header"}
                and isinstance(fields["_header"], dict)
            ):
                self.header.raw = self.header.raw | fields["_header"]
                yield self.header
                return
            yield self.header
        if isinstance(fields, Problem):
            yield from self.notes.drain()
            if fields.code == "incomplete_row":
                self.cut = fields  # said at the end, with the count of rows that were taken
            else:
                yield fields
            return
        for item in convert(line.number, fields, self.header.raw, self.notes):
            yield from self.notes.drain()
            self.taken += isinstance(item, Rollout)
            yield item
        yield from self.notes.drain()

    def _nul_bytes(self, line: Line) -> None:
        left = "as a crash on a network disk leaves them"
        if line.nul_bytes and line.data:
            message = f"{line.nul_bytes} NUL bytes around the row were skipped, {left}"
            self.notes.warn(line.number, None, "nul_bytes", message)
        elif line.nul_bytes:
            message = f"lines of nothing but NUL bytes were skipped, {left}"
            self.notes.tally(line.number, None, "nul_lines", message, "warning")

    def _fields(self, parser: Any, line: Line) -> dict[str, Any] | Problem:
        number = line.number
        try:
            if line.too_long:
                limit = f"{self.settings.max_line_bytes:,} bytes (VANTAGE_MAX_LINE_BYTES)"
                return _rejected(number, "line_too_long", f"longer than {limit}; skipped")
            row = parse(parser, line.data, self.settings.max_depth, self.lists)
        except TooDeep:
            limit = f"{self.settings.max_depth} (VANTAGE_MAX_DEPTH)"
            return _rejected(number, "too_deep", f"nested deeper than {limit}; skipped")
        except NotJson as error:
            if error.incomplete and line.last:
                return _rejected(number, "incomplete_row", "is incomplete")
            return _rejected(number, "not_json", f"not a JSON row ({error}): {shown(line.data)}; skipped")
        self._doubts(number, row)
        return row.fields

    def _doubts(self, number: int, row: Row) -> None:
        if row.bad_bytes:
            message = "not UTF-8 and shown as \ufffd; write the file with encoding='utf-8'"
            some = "1 byte is" if row.bad_bytes == 1 else f"{row.bad_bytes} bytes are"
            self.notes.warn(number, None, "invalid_utf8", f"{some} {message}")
        for key in row.repeated:
            self.notes.warn(number, key, "repeated_key", f"{key} is given twice; the last one was taken")

    def end(self) -> Iterator[Item]:
        if self.cut is not None:
            number = self.cut.row or 0
            total = f"{self.taken} of {self.taken + 1} rows loaded"
            message = f"line {number} is incomplete (file ends inside a JSON object); {total}."
            yield Problem(f"{message} Upload the whole file again.", "incomplete_row", "error", number)
        yield from self.notes.summary()


def _rejected(number: int, code: str, message: str) -> Problem:
    return Problem(f"row {number}: {message}", code, "error", number)


def shown(data: bytes) -> str:
    """The beginning of a line, for a sentence."""
    text = data[: SHOWN * 4].rstrip().decode(errors="replace")
    clean = "".join(character if character.isprintable() else "·" for character in text)
    return clean if len(clean) <= SHOWN else f"{clean[:SHOWN]}…"
