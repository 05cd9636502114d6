"""Damage to bytes, whatever they are: each function gives other bytes for the same seed the same way."""

import random
import re
from collections.abc import Callable

SPLICES = (
    b"\0", b"\xff\xff\xff\xff", b"[" * 70, b"{", b'"', b"NaN", b"1e999", b"\n", b"null", b"9" * 25,
    b"\x80\x04", b"PK\x03\x04", b"PAR1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x93NUMPY", b"\xed\xa0\x80",
    b"\xe2\x80\xa8", b"\r", b"-Infinity", b"'", b"\\u0000", b"\\ud800", b"\x1b[31m", b"\0" * 512,
)  # fmt: skip
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
#: After these marks stand lengths and offsets.
MARKS = re.compile(
    rb"PK(\x01\x02|\x03\x04|\x05\x06|\x06\x06)|PAR1|ARROW1|\x93NUMPY|SQLite format 3|ustar|\x80[\x02-\x05]"
)
NUMBERS = (
    "0",
    "-1",
    "1e999",
    "NaN",
    "9" * 25,
    str(2**31),
    str(2**53 + 1),
    str(2**63),
    "1" * 5000,
    "0x10",
    "",
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7")


def stretches(data: bytes, source: random.Random) -> bytes:
    """One to four changes: a stretch flipped, overwritten, doubled, lost or cut, or something foreign."""
    for _ in range(source.randint(1, 4)):
        position = source.randrange(max(1, len(data)))
        length = source.choice((1, 1, 4, 50))
        stretch = data[position : position + length]
        match source.randrange(6):
            case 0:
                new = bytes(byte ^ 1 << source.randrange(8) for byte in stretch)
            case 1:
                new = source.randbytes(len(stretch))
            case 2:
                new = stretch * 2
            case 3:
                new = b""
            case 4:
                return data[:position]
            case _:
                new = source.choice(SPLICES)
        data = data[:position] + new + data[position + length :]
    return data


def cut(data: bytes, source: random.Random) -> bytes:
    """The beginning or the end of it, as a copy that broke off."""
    position = source.choice((0, 1, 4, 8, len(data) - 1, len(data) - 8, source.randrange(len(data) + 1)))
    return data[: max(0, position)] if source.randrange(4) else data[max(0, position) :]


def lengths(data: bytes, source: random.Random) -> bytes:
    """Up to three whole numbers of 1 to 8 bytes set to an edge: after a mark, at either end, or anywhere."""
    out = bytearray(data)
    marks = [match.start() for match in MARKS.finditer(data)]
    for _ in range(source.randint(1, 3)):
        size = source.choice((1, 2, 4, 4, 8, 8))
        near = source.randrange(64)
        where = [near, len(out) - near, source.randrange(len(out) + 1)]
        where += [source.choice(marks) + near] * 2 if marks else []
        position = min(max(0, source.choice(where)), max(0, len(out) - size))
        value = source.choice((*EDGES, len(data), len(data) * 1000)) % (1 << 8 * size)
        out[position : position + size] = value.to_bytes(size, source.choice(("little", "big")))
    return bytes(out)


def numbers(data: bytes, source: random.Random) -> bytes:
    """Up to three numbers that are written as digits exchanged: shapes, offsets, sizes, values."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    for _ in range(source.randint(1, 3) if found else 0):
        start, end = source.choice(found).span()
        new = source.choice(NUMBERS).encode()
        if source.randrange(2):
            new = new.rjust(end - start, b" ")[: end - start]
        data = data[:start] + new + data[end:]
    return data


def lines(data: bytes, source: random.Random) -> bytes:
    """Lines shuffled, doubled, joined, indented, lost, or ended in another way."""
    found = data.split(b"\n")
    at = source.randrange(len(found))
    match source.randrange(6):
        case 0:
            source.shuffle(found)
        case 1:
            found.insert(at, found[at])
        case 2:
            found[at : at + 2] = [b"".join(found[at : at + 2])]
        case 3:
            found[at] = source.choice((b"  ", b"\t", b"- ", b"# ", b"&a ", b"data: ")) + found[at]
        case 4:
            del found[at]
        case _:
            return source.choice((b"\r\n", b"\r", b"\n\n\n", b"\n\0\n")).join(found)
    return b"\n".join(found)


def encoded(data: bytes, source: random.Random) -> bytes:
    """The text in another encoding, or with a byte order mark."""
    text = data.decode(errors="replace")
    return text.encode(source.choice(ENCODINGS), errors="replace")


def empty(data: bytes, source: random.Random) -> bytes:
    """Nothing, or nothing but white space or NUL bytes."""
    return source.choice((b"", b" ", b"\n" * 500, b"\0" * 5000, b"\xef\xbb\xbf", b"\xff\xfe", b"{}", b"[]"))


def huge(data: bytes, source: random.Random) -> bytes:
    """A very long run of something at some place."""
    position = source.randrange(len(data) + 1)
    run = source.choice(
        (b"[", b'{"a":', b"x", b"9", b"\n", b"\0", b'"', b"{}\n", b"\\", b"- ", b",", b"\xff", b"(")
    )
    return data[:position] + run * (source.choice((5_000, 100_000)) // len(run)) + data[position:]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    stretches, stretches, stretches, cut, lengths, lengths, numbers, lines, encoded, empty, huge,
)  # fmt: skip


def spliced(data: bytes, other: bytes, source: random.Random) -> bytes:
    """The beginning of one file and the end of another, or one inside the other."""
    at, since = source.randrange(len(data) + 1), source.randrange(len(other) + 1)
    if source.randrange(3):
        return data[:at] + other[since:]
    return data[:at] + other[since : since + 2000] + data[at:]
