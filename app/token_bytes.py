"""The bytes of token texts, and the runs of tokens that make whole characters together.

Bytes that no character has are kept as U+DC80 … U+DCFF (Python's "surrogateescape") until they are shown.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: How tokenizers write tokens that are no text; recorded responses often come without them.
CONTROL = re.compile(r"<[^<>\s]{1,80}>|\[/?[A-Z_]{2,12}\]")
ESCAPED = re.compile("[\udc80-\udcff]")
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")

ToBytes = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Cut:
    """Shortest runs of tokens that end where characters end: the text and the tokens of each.

    spans    tokens -> how many characters lie over so many of them, from 2 on
    invalid  tokens with bytes that are no part of a character
    """

    texts: list[str]
    counts: list[int]
    spans: dict[int, int]
    invalid: int


def cut(pieces: Sequence[bytes]) -> Cut:
    """The runs of the tokens with these bytes. A byte that no character has ends where it stands."""
    text = b"".join(pieces).decode("utf-8", "surrogateescape")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    escaped = (codes >= 0xDC80) & (codes <= 0xDCFF)
    widths = np.where(escaped, 1, 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000))
    edges = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)  # bytes before each character
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    places = np.searchsorted(edges, ends)  # characters up to the end of each token
    last = np.flatnonzero(edges[places] == ends)
    first = np.concatenate([[-1], last])
    starts = np.concatenate([[0], places[last]])
    owner = np.searchsorted(ends, edges[:-1], "right")
    tokens = np.searchsorted(ends, edges[1:] - 1, "right") - owner + 1
    return Cut(
        [text[a:b] for a, b in zip(starts.tolist(), places[last].tolist(), strict=False)],
        np.diff(first).tolist(),
        dict(sorted(Counter(tokens[tokens > 1].tolist()).items())),
        int(np.unique(owner[escaped]).size),
    )


def spelled(text: str) -> str:
    """The text with `<0xFF>` for each byte that no character has."""
    return ESCAPED.sub(lambda match: f"<0x{ord(match.group()) - 0xDC00:02X}>", text)


def _byte_table() -> dict[str, int]:
    """The letters that byte-level BPE writes for the 256 bytes (GPT-2's bytes_to_unicode, reversed)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in plain}
    others = (byte for byte in range(256) if byte not in plain)
    table.update({chr(256 + place): byte for place, byte in enumerate(others)})
    return table


_BYTES = _byte_table()


def escaped_bytes(text: str) -> bytes | None:
    """Bytes of a text in which undecodable bytes were kept as U+DC80 … U+DCFF."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None


def byte_level(text: str) -> bytes | None:
    """Bytes of a token in byte-level vocabulary form."""
    try:
        return bytes(_BYTES[character] for character in text)
    except KeyError:
        return None


def byte_level_or_control(text: str) -> bytes | None:
    """The same in a vocabulary whose control tokens are written as they are (`<｜end▁of▁sentence｜>`)."""
    found = byte_level(text)
    return escaped_bytes(text) if found is None and CONTROL.fullmatch(text) else found


def sentencepiece(text: str) -> bytes | None:
    """Bytes of a SentencePiece piece: `▁` is a space, `<0xE4>` one byte."""
    match = _BYTE_PIECE.fullmatch(text)
    if match:
        return bytes([int(match.group(1), 16)])
    return escaped_bytes(text if CONTROL.fullmatch(text) else text.replace("▁", " "))
