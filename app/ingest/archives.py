"""ZIP archives: each member one file, names made safe, declared sizes checked before anything is expanded."""

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any

from app.ingest.expand import Account, Caps, DamagedStream
from app.ingest.record import Problem

#: What zipfile raises on damaged, encrypted or unusual archives.
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, RuntimeError,
    LookupError,
)  # fmt: skip
MAX_MEMBERS = 10_000
READABLE_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
BUFFER = 1 << 20


def why(error: BaseException) -> str:
    """What is wrong with the archive, without the system's numbers, which say nothing to its owner."""
    if isinstance(error, OSError) and error.errno == errno.EINVAL:
        return "an offset in it points outside of the file"
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    open: Callable[[], BufferedReader]


def is_archive(path: Path, head: bytes) -> bool:
    """Whether the file is a ZIP of files to read: not numpy's .npz, PyTorch's .pt, a workbook or an Inspect
    log.
    """
    if not head.startswith(b"PK\x03\x04"):
        return False
    names = member_names(path)
    return names is not None and zip_kind(names) is None


def member_names(path: Path) -> list[str] | None:
    """Names of the members, or None where the file is no readable ZIP."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except BROKEN:
        return None


def zip_kind(names: list[str]) -> str | None:
    """What a ZIP with these members is, where it is a file format rather than an archive of files."""
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return "torch"
    if "[Content_Types].xml" in names:
        return "workbook"
    begun = "header.json" in names or "_journal/start.json" in names  # the former is written at the end
    if begun and any(name.startswith(("samples/", "_journal/")) for name in names):
        return "inspect"
    return None


def members(name: str, path: Path, caps: Caps, report: Callable[[int], None]) -> Iterator[Member | Problem]:
    """The files of an archive in its own order; `report` hears how far in the archive the reading got.

    Raises TooLarge where the declared sizes cannot be honest.
    """
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if not ignored(info.filename)]
        if len(infos) > MAX_MEMBERS:
            yield Problem(
                f"{name} holds {len(infos):,} files; at most {MAX_MEMBERS:,} are read.",
                "too_many_files",
                "error",
            )
            return
        for info in infos:
            caps.check_ratio(f"{name}: {safe_name(info.filename)}", info.compress_size, info.file_size)
            shown = safe_name(info.filename)
            if info.flag_bits & 1:
                yield Problem(
                    f"{name}: {shown} is encrypted; send it without a password.", "encrypted", "error"
                )
            elif info.compress_type not in READABLE_METHODS:
                method = f"compression method {info.compress_type}"
                message = (
                    f"{name}: {shown} is packed with {method}; pack it with deflate, or send the file itself."
                )
                yield Problem(message, "packed", "error")
            else:
                account = caps.account(f"{name}: {shown}", max(1, info.compress_size))
                yield Member(shown, _opener(archive, info, account, report))
        if not infos:
            yield Problem(f"{name} is an archive without files.", "no_rows", "error")


def ignored(name: str) -> bool:
    """Folders, and entries that archivers add by themselves."""
    parts = name.split("/")
    return name.endswith("/") or "__MACOSX" in parts or parts[-1] in (".DS_Store", "Thumbs.db", "desktop.ini")


def safe_name(name: str) -> str:
    """The member's name as shown: no drive, no leading slash, no "..", no control characters, at most 255
    long.
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if len(parts) > 1 and parts[0].endswith(":"):
        parts = parts[1:]
    clean = "".join(character for character in "/".join(parts) if character.isprintable())
    return clean[-255:] or "file"


def _opener(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, account: Account, report: Callable[[int], None]
) -> Callable[[], BufferedReader]:
    def opened() -> BufferedReader:
        try:
            stream = archive.open(info)
        except BROKEN as error:
            raise DamagedStream(f"the archive is damaged ({why(error)})") from None
        return BufferedReader(_Bounded(stream, info, account, report), BUFFER)

    return opened


class _Bounded(RawIOBase):
    """A member's bytes as they come out, counted: its declared size is only a claim."""

    def __init__(
        self, stream: IO[bytes], info: zipfile.ZipInfo, account: Account, report: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._stream, self._info, self._account, self._report = stream, info, account, report
        self._written = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(len(view))
        except BROKEN as error:
            raise DamagedStream(f"the archive is damaged ({why(error)})") from None
        self._written += len(data)
        info = self._info
        self._account.reach(self._written, info.compress_size)
        share = min(1.0, self._written / max(1, info.file_size))
        self._report(info.header_offset + int(share * info.compress_size))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
