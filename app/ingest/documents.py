"""A file that is one JSON object, over many lines or on one: its members one by one, long lists by element.

Memory holds one member (or one element of a list that is streamed), never the whole document.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from app.ingest.json_rows import NotJson, TooDeep, value_of
from app.ingest.lines import BOM
from app.ingest.record import Source, Unreadable
from app.settings import Settings

BLOCK = 1 << 20
QUOTE, BACKSLASH, COMMA, OPEN_LIST = b'"\\,['
_STRUCTURE = re.compile(rb'["\\\[\]{},]')
_KEY = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)
MEMO = "document_keys"
#: Keys of documents whose lists are read element by element.
STREAMED = (frozenset(("columns", "data")), frozenset(("eval", "samples")), frozenset(("eval", "plan")))


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the object; or one element (`number` from 1) of a list that is streamed."""

    key: str
    data: bytes
    number: int = 0


def begins_object(head: bytes) -> bool:
    return head.removeprefix(BOM).lstrip()[:1] == b"{"


def keys(source: Source) -> tuple[str, ...]:
    """The keys of the outermost object that begin in the file's first 64 KiB, in order; () for other files.

    Lines of JSON objects have the keys of the first line.
    """
    if MEMO not in source.memo:
        source.memo[MEMO] = tuple(_keys(source.head)) if begins_object(source.head) else ()
    found: tuple[str, ...] = source.memo[MEMO]
    return found


def is_document(source: Source) -> bool:
    """Whether the file is one object: its first line is not whole, or nothing follows it."""
    if not begins_object(source.head):
        return False
    scan = _Members(())
    for _ in scan.feed(source.head.removeprefix(BOM)):
        pass
    return not scan.ended or not bytes(scan.rest).strip()


def _keys(head: bytes) -> Iterator[str]:
    scan = _Members(())
    for member in scan.feed(head.removeprefix(BOM)):
        yield member.key
    if not scan.ended and (key := scan.key()) is not None:
        yield key


def members(source: Source, settings: Settings, streamed: Collection[str] = ()) -> Iterator[Member]:
    """The members in the order of the file; those named in `streamed` that are lists, element by element.

    Raises Unreadable where the file ends early or a member is past the limit on lines.
    """
    scan, first = _Members(streamed), True
    with source.open() as stream:
        while not scan.ended and (block := stream.read(BLOCK)):
            yield from scan.feed(block.removeprefix(BOM) if first else block)
            first = False
            if len(scan.buffer) > settings.max_line_bytes:
                limit = f"{settings.max_line_bytes:,} bytes (VANTAGE_MAX_LINE_BYTES)"
                raise Unreadable(f"a part of the document is longer than {limit}", "line_too_long")
    if not scan.ended:
        raise Unreadable(
            "the file ends inside the document; what came before that point stands. Upload the whole file "
            "again.",
            "incomplete_row",
        )


def value(member: Member, settings: Settings) -> Any:
    """The member's value. Raises Unreadable where it is no JSON, or nested too deep."""
    where = f"{member.key}[{member.number - 1}]" if member.number else member.key
    try:
        return value_of(member.data, settings.max_depth)
    except TooDeep:
        limit = f"{settings.max_depth} (VANTAGE_MAX_DEPTH)"
        raise Unreadable(f"{where} is nested deeper than {limit}", "too_deep") from None
    except NotJson as error:
        raise Unreadable(f"{where} is no JSON ({error})", "not_json") from None


class _Members:
    """Cuts an object at the commas of its outermost level, and the lists in `streamed` at theirs."""

    def __init__(self, streamed: Collection[str]) -> None:
        self.buffer = bytearray()
        self.rest = bytearray()  # what follows the object in the block that ends it
        self.ended = False
        self._streamed = frozenset(streamed)
        self._depth = 0
        self._at = 0  # how far the buffer was looked at
        self._start = 0  # where the present member or element begins
        self._in_text = False
        self._list: str | None = None  # key of the list that is being streamed
        self._number = 0

    def key(self) -> str | None:
        """The key of the member that is not whole yet, where its key is."""
        match = _KEY.match(self.buffer, self._start)
        return None if match is None or self._depth == 0 else _text(match[1])

    def feed(self, block: bytes) -> Iterator[Member]:
        """What is whole with this block."""
        self.buffer += block
        while not self.ended and (match := _STRUCTURE.search(self.buffer, self._at)):
            byte = self.buffer[match.start()]
            if byte == BACKSLASH and match.end() >= len(self.buffer):
                self._at = match.start()
                break
            self._at = match.end() + (byte == BACKSLASH)  # a backslash takes the next byte with it
            yield from self._step(byte, match.start())
        else:
            if self.ended:
                self.rest = self.buffer[self._at :]
            self._at = len(self.buffer)
        del self.buffer[: self._start]
        self._at, self._start = self._at - self._start, 0

    def _step(self, byte: int, position: int) -> Iterator[Member]:
        """Take note of one structural byte; what ends with it."""
        if byte == QUOTE:
            self._in_text = not self._in_text
        elif self._in_text or byte == BACKSLASH:
            return
        elif byte in b"[{":
            self._depth += 1
            if self._depth == 1:
                self._start = position + 1
            elif self._depth == 2 and byte == OPEN_LIST and self._list is None:
                self._open_list(position)
        elif byte == COMMA:
            if self._depth == (1 if self._list is None else 2):
                yield from self._cut(position)
        else:
            yield from self._close(position)

    def _open_list(self, position: int) -> None:
        match = _KEY.fullmatch(self.buffer, self._start, position)
        key = None if match is None else _text(match[1])
        if key in self._streamed:
            self._list, self._number, self._start = key, 0, position + 1

    def _close(self, position: int) -> Iterator[Member]:
        if self._depth == 2 and self._list is not None:
            yield from self._cut(position)
            self._list = None
            self._start = position + 1
        elif self._depth == 1:
            yield from self._cut(position)
            self.ended = True
        self._depth -= 1

    def _cut(self, position: int) -> Iterator[Member]:
        data = bytes(self.buffer[self._start : position]).strip()
        start, self._start = self._start, position + 1
        if not data:
            return
        if self._list is not None:
            self._number += 1
            yield Member(self._list, data, self._number)
        elif match := _KEY.match(self.buffer, start, position):
            yield Member(_text(match[1]), bytes(self.buffer[match.end() : position]).strip())


def _text(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
