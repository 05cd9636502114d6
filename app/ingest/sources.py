"""From a file as handed over to what readers see: compression and archives undone, within limits, nothing
run.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path

from app.ingest import archives, tars
from app.ingest.archives import Member, is_archive
from app.ingest.expand import GZIP, ZSTD, Caps, DamagedStream, Expanding
from app.ingest.record import HEAD, File, Problem, Source
from app.ingest.tars import is_tar
from app.settings import Settings

Members = Callable[[str, Path, Caps, Callable[[int], None]], Iterator[Member | Problem]]

BUFFER = 1 << 20
#: Beginnings of files whose reader has to seek: they are expanded to a temporary file first.
SEEKABLE = (
    b"PAR1", b"PK\x03\x04", b"ARROW1", b"\xff\xff\xff\xff", b"SQLite format 3\0",
    b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05",
)  # fmt: skip
#: How a list of msgpack begins; no text does.
PACKED = tuple(bytes([byte]) for byte in (*range(0x90, 0xA0), 0xDC, 0xDD))
MAX_LAYERS = 3


class Meter:
    """How many bytes of the spooled file were consumed: the furthest that any reading of it got."""

    def __init__(self) -> None:
        self._handle: BufferedReader | None = None
        self._furthest = 0

    def watch(self, handle: BufferedReader) -> BufferedReader:
        """Follow this handle from now on."""
        self.position()
        self._handle = handle
        return handle

    def report(self, position: int) -> None:
        self._furthest = max(self._furthest, position)

    def position(self) -> int:
        if self._handle is not None and not self._handle.closed:
            self.report(self._handle.tell())
        return self._furthest


@dataclass(frozen=True, slots=True)
class _Layer:
    """One wrapping of the file. `path`: where its bytes lie on disk, if they do; `depth` counts wrappings."""

    name: str
    open: Callable[[], BufferedReader]
    path: Path | None
    depth: int
    member: bool = False
    outer: str = ""


@dataclass(frozen=True, slots=True)
class _Context:
    settings: Settings
    caps: Caps
    meter: Meter


def unwrap(file: File, settings: Settings, caps: Caps | None = None) -> Iterator[Source | Problem]:
    """Every file inside `file`, one after the other; each is closed (and deleted, if temporary) before the
    next.

    `caps` is shared by the files of one upload. Raises TooLarge where something expands past a limit.
    """
    meter = Meter()

    def opened() -> BufferedReader:
        return meter.watch(_open(file.path))

    context = _Context(settings, caps or Caps(settings), meter)
    yield from _unwrap(_Layer(file.name, opened, file.path, 0), context)


def _unwrap(layer: _Layer, context: _Context) -> Iterator[Source | Problem]:
    head, broken = _head(layer)
    if broken is not None:
        yield from _cut_short(layer, head, broken, context)
        return
    kind = GZIP if head.startswith(GZIP) else ZSTD if head.startswith(ZSTD) else None
    if layer.depth >= MAX_LAYERS and (kind or head.startswith(b"PK\x03\x04") or is_tar(head)):
        message = f"{layer.name} is packed {layer.depth} times over; unpack it and send the files."
        yield Problem(message, "packed", "error")
    elif kind is not None:
        yield from _unwrap(_expanded(layer, kind, context.caps), context)
    elif layer.path is None and _must_seek(head):
        with _on_disk(layer, context.settings) as (copy, broken):
            if broken is None:
                yield from _opened(replace(layer, open=partial(_open, copy), path=copy), head, context)
            else:
                yield damaged(layer.name, broken)
    else:
        yield from _opened(layer, head, context)


def _expanded(layer: _Layer, kind: bytes, caps: Caps) -> _Layer:
    account = caps.account(layer.name)

    def opened() -> BufferedReader:
        return BufferedReader(Expanding(layer.open(), kind, account), BUFFER)

    return replace(layer, name=_without_ending(layer.name), open=opened, path=None, depth=layer.depth + 1)


def _opened(layer: _Layer, head: bytes, context: _Context) -> Iterator[Source | Problem]:
    """A file without wrapping, or the members of an archive."""
    meter = context.meter
    found = None if layer.path is None else kind_of_archive(layer.path, head)
    if layer.path is None or found is None:
        yield Source(
            layer.name,
            head,
            layer.open,
            layer.path,
            meter.position,
            meter.report,
            layer.member,
            layer.outer,
            copied=layer.depth > 0,
        )
        return
    report = meter.report if layer.depth == 0 else _unheard
    outer = f"{layer.outer}/{layer.name}" if layer.outer else layer.name
    for member in found(layer.name, layer.path, context.caps, report):
        if isinstance(member, Problem):
            yield member
        else:
            inner = _Layer(member.name, member.open, None, layer.depth + 1, True, outer)
            yield from _unwrap(inner, context)


def kind_of_archive(path: Path, head: bytes) -> Members | None:
    """What lists the members of the archive that this file is, None where it is none."""
    if is_archive(path, head):
        return archives.members
    return tars.members if is_tar(head) else None


def _open(path: Path) -> BufferedReader:
    return BufferedReader(FileIO(path), BUFFER)


def _unheard(position: int) -> None:
    """Positions in a temporary copy say nothing about the spooled file."""


def _must_seek(head: bytes) -> bool:
    return head.startswith(SEEKABLE) or head[:1] in PACKED or looks_like_safetensors(head) or is_tar(head)


def looks_like_safetensors(head: bytes) -> bool:
    """Eight bytes of length, then a JSON object."""
    return (
        len(head) > 9
        and head[8:9] == b"{"
        and (head[7] == 0 or head[8:10] == b"{}")
        and not head[:1].isspace()
    )


@contextmanager
def _on_disk(layer: _Layer, settings: Settings) -> Iterator[tuple[Path, DamagedStream | None]]:
    """The expanded bytes in a temporary file beside the spool (or in the system's folder), deleted at the
    end.
    """
    folder = settings.spool_dir if settings.spool_dir.is_dir() else None
    handle, name = tempfile.mkstemp(prefix="expanded-", dir=folder)
    broken = None
    try:
        with os.fdopen(handle, "wb") as out:
            try:
                with layer.open() as stream:
                    while block := stream.read(BUFFER):
                        out.write(block)
            except DamagedStream as error:
                broken = error
        yield Path(name), broken
    finally:
        Path(name).unlink(missing_ok=True)


def _head(layer: _Layer) -> tuple[bytes, DamagedStream | None]:
    """The beginning of the file, and what it broke off with where it did so before that was whole."""
    head = b""
    try:
        with layer.open() as stream:
            while len(head) < HEAD and (block := stream.read1(HEAD - len(head))):
                head += block
    except DamagedStream as error:
        return head, error
    return head, None


def _cut_short(
    layer: _Layer, head: bytes, broken: DamagedStream, context: _Context
) -> Iterator[Source | Problem]:
    """What came out of a small compressed file before it broke off, and that it did."""
    if head and not head.startswith((GZIP, ZSTD)) and not _must_seek(head):
        whole = replace(layer, open=lambda: BufferedReader(BytesIO(head)))
        yield from _opened(whole, head, context)
    yield damaged(layer.name, broken)


def _without_ending(name: str) -> str:
    for ending in (".gz", ".gzip", ".zst", ".zstd"):
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def damaged(name: str, error: DamagedStream) -> Problem:
    """The problem that says where a compressed file broke off; rows before it stand."""
    return Problem(
        f"{name}: {error}. Rows before that point stand; upload the whole file again.",
        "damaged_stream",
        "error",
    )
