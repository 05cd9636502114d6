"""Reading gzip and zstd as a stream, with caps on what may come out, so that a bomb costs nothing."""

import io
import zlib
from typing import Any, BinaryIO

import zstandard

from app.errors import TooLarge
from app.settings import Settings

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
MAX_WINDOW = 1 << 27
#: Below this, any ratio is harmless (a few identical rows compress a thousandfold).
FREE_BYTES = 16 << 20
OUTPUT = 1 << 18
#: A zstd block of 4 bytes can become 128 KiB: so little input at once bounds the output to 32 MiB.
ZSTD_INPUT = 1 << 10


class DamagedStream(Exception):
    """The compressed data ends early or is not what it says. The message is a sentence's end."""


class Caps:
    """What may come out of one upload, over all its files and members."""

    def __init__(self, settings: Settings) -> None:
        self._left = settings.max_expanded_bytes
        self._settings = settings

    def account(self, name: str, compressed: int | None = None) -> "Account":
        """The account of one compressed file; `compressed` is its size where that is known beforehand."""
        return Account(self, name, compressed)

    def spend(self, name: str, count: int) -> None:
        """Take `count` expanded bytes off what is left. Raises TooLarge."""
        self._left -= count
        if self._left < 0:
            limit = f"{self._settings.max_expanded_bytes:,} bytes (VANTAGE_MAX_EXPANDED_BYTES)"
            raise TooLarge(
                f"{name} expands past the limit of {limit}; nothing of it was kept. Send it in parts."
            )

    def check_ratio(self, name: str, compressed: int, expanded: int) -> None:
        """Raises TooLarge where so much comes out of so little that it can be no honest file."""
        limit = self._settings.max_expansion_ratio
        if expanded > FREE_BYTES and expanded > limit * max(1, compressed):
            times = expanded // max(1, compressed)
            raise TooLarge(
                f"{name} expands past the limit: {times:,} times its compressed size, where {limit} times "
                "are allowed (VANTAGE_MAX_EXPANSION_RATIO). Nothing of it was kept; an honest file can be "
                "sent uncompressed."
            )


class Account:
    """Expanded bytes of one file, counted once however often it is opened."""

    def __init__(self, caps: Caps, name: str, compressed: int | None) -> None:
        self._caps, self._name, self._compressed = caps, name, compressed
        self._furthest = 0

    def reach(self, expanded: int, compressed: int) -> None:
        """One handle has now given `expanded` bytes of `compressed`. Raises TooLarge."""
        if expanded > self._furthest:
            self._caps.spend(self._name, expanded - self._furthest)
            self._furthest = expanded
        self._caps.check_ratio(self._name, self._compressed or compressed, expanded)


class Expanding(io.RawIOBase):
    """The decompressed bytes of a gzip (any number of members) or zstd (any number of frames) stream.

    Raises TooLarge at a cap, DamagedStream where the data ends inside a member or is broken.
    """

    def __init__(self, raw: BinaryIO, kind: bytes, account: Account) -> None:
        super().__init__()
        self._raw, self._kind, self._account = raw, kind, account
        self._decoder: Any = None
        self._pending = b""  # compressed bytes that were read and not yet decoded
        self._out = b""
        self._read = self._written = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._out:
            if not self._more():
                return 0
        count = min(len(view), len(self._out))
        view[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()

    def _more(self) -> bool:
        """Decode a little more into `_out`; False at the end of the data."""
        if not self._pending:
            self._pending = self._raw.read(1 << 16)
            self._read += len(self._pending)
        if self._decoder is None:
            return self._begin()
        at_end = not self._pending
        try:
            self._out = self._decode()
        except (zlib.error, zstandard.ZstdError) as error:
            raise DamagedStream(f"the compressed data is damaged ({error})") from None
        if at_end and not self._out and self._decoder is not None:
            raise DamagedStream("the compressed data ends early: the copy is incomplete")
        self._written += len(self._out)
        self._account.reach(self._written, self._read)
        return True

    def _begin(self) -> bool:
        while self._pending[:1] == b"\0":  # zero padding between members, as tape archivers write it
            self._pending = self._pending.lstrip(b"\0")
            if not self._pending:
                return self._more()
        if not self._pending:
            return False
        if len(self._pending) < 4:
            self._pending += self._raw.read(4)
        if not self._pending.startswith(self._kind):
            raise DamagedStream("something other than compressed data follows the compressed data")
        if self._kind == GZIP:
            self._decoder = zlib.decompressobj(wbits=31)
        else:
            self._decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()
        return True

    def _decode(self) -> bytes:
        if self._kind == GZIP:
            out = self._decoder.decompress(self._pending, OUTPUT)
            self._pending = bytes(self._decoder.unconsumed_tail)
        else:
            head, self._pending = self._pending[:ZSTD_INPUT], self._pending[ZSTD_INPUT:]
            out = self._decoder.decompress(head) if head else b""
        if self._decoder.eof:
            self._pending = bytes(self._decoder.unused_data) + self._pending
            self._decoder = None
        return bytes(out)
