"""Rows of a text file as bytes, one at a time: lines of a JSONL file, or elements of one JSON array."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

from app.ingest.record import Problem, Severity

BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20
#: So many blank lines in a row are a flood, which is passed over block by block.
MANY = 64
QUOTE, BACKSLASH, COMMA, OPEN, CLOSE = b'"\\,[]'
_STRUCTURE = re.compile(rb'["\\\[\]{},]')


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1, `data` is stripped of white space, but a line end may be left behind an object.
    `last`: the file ends in it without a line end. `fault`: what is wrong here with the list that the rows
    stand in; such a line has no data.
    """

    number: int
    data: bytes
    last: bool = False
    too_long: bool = False
    nul_bytes: int = 0
    fault: Problem | None = None


def lines(stream: BufferedReader, limit: int) -> Iterator[Line]:
    """Every line that is not blank. A line past `limit` bytes comes without its data, marked `too_long`.

    Only b"\\n" ends a line: U+2028 and U+0085 stand unescaped in text of many writers. A byte order mark is
    taken off, and the NUL bytes that a crash on a network disk leaves around a line; these are counted.
    """
    number = blank = 0
    while True:
        data = stream.readline(limit + 1)
        if not data:
            return
        number += 1
        if len(data) > limit and not data.endswith(b"\n"):
            _skip_line(stream)
            yield Line(number, data[:80], too_long=True)
            continue
        last = not data.endswith(b"\n")
        if number == 1:
            data = data.removeprefix(BOM)
        nul_bytes = 0
        if b"\0" in data:
            stripped = data.strip(b"\0 \t\r\n")
            nul_bytes = data.count(b"\0") - stripped.count(b"\0")
            data = stripped
        if data[:1] != b"{" or data[-2:] != b"}\n":  # else a copy of a long line is saved
            data = data.strip()
        if data or nul_bytes:
            yield Line(number, data, last, nul_bytes=nul_bytes)
        blank = 0 if data or nul_bytes else blank + 1
        if blank == MANY:
            number, blank = number + _skip_blank(stream), 0


def _skip_blank(stream: BufferedReader) -> int:
    """Pass over white space block by block; how many lines that were."""
    skipped = 0
    while ahead := stream.peek():
        blank = len(ahead) - len(ahead.lstrip())
        skipped += stream.read(blank).count(b"\n")
        if blank < len(ahead):
            break
    return skipped


def _skip_line(stream: BufferedReader) -> None:
    while True:
        data = stream.readline(BLOCK)
        if not data or data.endswith(b"\n"):
            return


def elements(stream: BufferedReader, limit: int) -> Iterator[Line]:
    """The elements of a JSON array, each as the bytes it was written in; memory for one element only. Arrays
    one after another, as a writer leaves them that appends one each step, are read as one.

    An element past `limit` bytes ends the reading, marked `too_long`; one that the file cuts is marked
    `last`. A comma without an element, an array that is never closed and what follows the last one are
    lines with a `fault`.
    """
    array, number = _Array(), 0
    while not array.over and (block := stream.read(BLOCK)):
        for element in array.feed(block):
            number += bool(element)
            yield Line(number, element) if element else _fault(number, NO_ROW)
        if len(array.buffer) > limit:
            yield Line(number + 1, bytes(array.buffer[:80]), too_long=True)
            return
    rest = bytes(array.buffer).strip()
    if array.depth and rest:
        number += 1
        yield Line(number, rest, last=True)
    if array.depth == 1 and not array.in_text:  # else the row itself is cut, which is said of the row
        yield _fault(number, NOT_CLOSED)
    if not array.depth and rest:
        yield _fault(number, BEHIND, _shown(rest))
    if array.lists > 1:
        yield _fault(number, SEVERAL, str(array.lists))


NO_ROW, NOT_CLOSED, BEHIND, SEVERAL = "no_row_at_comma", "list_not_closed", "behind_the_list", "several_lists"
_FAULTS = {
    NO_ROW: "a comma after row {row} has no row behind it: a row may be missing",
    NOT_CLOSED: (
        "the list of rows is not closed: the file ends after row {row}, and rows behind it may be missing. "
        "Upload the whole file again."
    ),
    BEHIND: (
        "what follows the end of the list, after row {row}, was not read: {shown}. Write one object per "
        "line, or one list."
    ),
    SEVERAL: "{shown} lists stand one after another in the file; the rows of all of them were read",
}


def _fault(row: int, code: str, shown: str = "") -> Line:
    severity: Severity = "error" if code == BEHIND else "info" if code == SEVERAL else "warning"
    return Line(row, b"", fault=Problem(_FAULTS[code].format(row=row, shown=shown), code, severity))


def _shown(rest: bytes) -> str:
    text = rest[:160].decode(errors="replace")
    clean = "".join(character if character.isprintable() else "·" for character in text)
    return clean if len(clean) <= 40 else f"{clean[:40]}…"


class _Array:
    """Cuts JSON arrays at the commas of their outermost level. `buffer` holds the element that is not whole
    yet, or what lies behind the last array; `over`: no array begins there.
    """

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.depth = self.lists = 0
        self.over = self.in_text = False
        self._at = 0  # how far the buffer was looked at
        self._start = 0  # where the present element begins
        self._comma = False  # whether a comma stands before it

    def feed(self, block: bytes) -> Iterator[bytes]:
        """The elements that are whole with this block; an empty one for a comma without an element."""
        self.buffer += block
        while not self.over and (match := _STRUCTURE.search(self.buffer, self._at)):
            byte = self.buffer[match.start()]
            if byte == BACKSLASH and match.end() >= len(self.buffer):
                self._at = match.start()
                break
            self._at = match.end() + (byte == BACKSLASH)  # a backslash takes the next byte with it
            element = self._step(byte, match.start())
            if element is not None:
                yield element
        else:
            self._at = len(self.buffer)
        del self.buffer[: self._start]
        self._at, self._start = self._at - self._start, 0

    def _step(self, byte: int, position: int) -> bytes | None:
        """Take note of one structural byte; the element that it ends, or None."""
        if not self.depth:
            self._begin(byte, position)
        elif byte == QUOTE:
            self.in_text = not self.in_text
        elif self.in_text or byte == BACKSLASH:
            return None
        elif byte in b"[{":
            self.depth += 1
        elif self.depth == 1:
            return self._cut(byte, position)
        elif byte in b"]}":
            self.depth -= 1
        return None

    def _begin(self, byte: int, position: int) -> None:
        before = bytes(self.buffer[self._start : position]).removeprefix(BOM)
        self.over = byte != OPEN or bool(before.strip())
        if not self.over:
            self.depth, self.lists, self._start = 1, self.lists + 1, position + 1

    def _cut(self, byte: int, position: int) -> bytes | None:
        element = bytes(self.buffer[self._start : position]).strip()
        self._start = position + 1
        due = byte == COMMA or self._comma
        self._comma = byte == COMMA
        self.depth -= byte == CLOSE
        return element if element or due else None
