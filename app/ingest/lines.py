"""Rows of a text file as bytes, one at a time: the lines of a JSONL file, or the elements of one JSON array.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20
_STRUCTURE = re.compile(rb'["\\\[\]{},]')


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1, `data` is stripped of white space. `last`: the file ends in it without a line
    end.
    """

    number: int
    data: bytes
    last: bool = False
    too_long: bool = False
    nul_bytes: int = 0


def lines(stream: BinaryIO, limit: int) -> Iterator[Line]:
    """Every line that is not blank. A line past `limit` bytes comes without its data, marked `too_long`.

    Only b"\\n" ends a line: U+2028 and U+0085 stand unescaped in text of many writers. A byte order mark and the
    NUL bytes that a crash on a network disk leaves around a line are taken off; the latter are counted.
    """
    number = 0
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
            whole = len(data)
            data = data.strip(b"\0 \t\r\n")
            nul_bytes = whole - len(data)
        data = data.strip()
        if data or nul_bytes:
            yield Line(number, data, last, nul_bytes=nul_bytes)


def _skip_line(stream: BinaryIO) -> None:
    while True:
        data = stream.readline(BLOCK)
        if not data or data.endswith(b"\n"):
            return


def elements(stream: BinaryIO, limit: int) -> Iterator[Line]:
    """The elements of one JSON array, each as the bytes it was written in; memory for one element only.

    An element past `limit` bytes ends the reading, marked `too_long`; one that the file cuts is marked
    `last`.
    """
    buffer, number = bytearray(), 0
    depth, start, at, in_string = 0, 0, 0, False
    while block := stream.read(BLOCK):
        buffer += block
        while match := _STRUCTURE.search(buffer, at):
            byte, at = buffer[match.start()], match.end()
            if in_string:
                if byte == 0x5C:  # a backslash takes the next byte with it
                    if at >= len(buffer):
                        at -= 1
                        break
                    at += 1
                elif byte == 0x22:
                    in_string = False
            elif byte == 0x22:
                in_string = True
            elif byte in b"[{":
                depth += 1
                start = at if depth == 1 else start
            elif depth == 1 and byte in b",]}":
                element = bytes(buffer[start : match.start()]).strip()
                start = at
                if element:
                    number += 1
                    yield Line(number, element)
                if byte != 0x2C:
                    return
            elif byte in b"]}":
                depth -= 1
        else:
            at = len(buffer)
        if depth:
            del buffer[:start]
            at, start = at - start, 0
        if len(buffer) > limit:
            yield Line(number + 1, bytes(buffer[:80]), too_long=True)
            return
    rest = bytes(buffer[start:]).strip()
    if depth and rest:
        yield Line(number + 1, rest, last=True)
