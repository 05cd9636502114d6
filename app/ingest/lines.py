"""Rows of a text file as bytes, one at a time: lines of a JSONL file, or elements of one JSON array."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20
#: So many blank lines in a row are a flood, which is passed over block by block.
MANY = 64
QUOTE, BACKSLASH, COMMA = b'"\\,'
_STRUCTURE = re.compile(rb'["\\\[\]{},]')


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1, `data` is stripped of white space, but a line end may be left behind an object.
    `last`: the file ends in it without a line end.
    """

    number: int
    data: bytes
    last: bool = False
    too_long: bool = False
    nul_bytes: int = 0


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
    """The elements of one JSON array, each as the bytes it was written in; memory for one element only.

    An element past `limit` bytes ends the reading, marked `too_long`; one that the file cuts is marked
    `last`.
    """
    array, number = _Array(), 0
    while not array.ended and (block := stream.read(BLOCK)):
        for element in array.feed(block):
            number += 1
            yield Line(number, element)
        if len(array.buffer) > limit:
            yield Line(number + 1, bytes(array.buffer[:80]), too_long=True)
            return
    rest = bytes(array.buffer).strip()
    if array.depth and rest:
        yield Line(number + 1, rest, last=True)


class _Array:
    """Cuts a JSON array at the commas of its outermost level. `buffer` holds the element that is not whole
    yet.
    """

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.depth = 0
        self.ended = False
        self._at = 0  # how far the buffer was looked at
        self._start = 0  # where the present element begins
        self._in_text = False

    def feed(self, block: bytes) -> Iterator[bytes]:
        """The elements that are whole with this block."""
        self.buffer += block
        while not self.ended and (match := _STRUCTURE.search(self.buffer, self._at)):
            byte = self.buffer[match.start()]
            if byte == BACKSLASH and match.end() >= len(self.buffer):
                self._at = match.start()
                break
            self._at = match.end() + (byte == BACKSLASH)  # a backslash takes the next byte with it
            if element := self._step(byte, match.start()):
                yield element
        else:
            self._at = len(self.buffer)
        del self.buffer[: self._start]
        self._at, self._start = self._at - self._start, 0

    def _step(self, byte: int, position: int) -> bytes:
        """Take note of one structural byte; the element that it ends, or nothing."""
        if byte == QUOTE:
            self._in_text = not self._in_text
        elif self._in_text or byte == BACKSLASH:
            return b""
        elif byte in b"[{":
            self.depth += 1
            if self.depth == 1:
                self._start = position + 1
        elif self.depth == 1:
            element = bytes(self.buffer[self._start : position]).strip()
            self._start = position + 1
            self.ended = byte != COMMA
            return element
        elif byte in b"]}":
            self.depth -= 1
        return b""
