"""What lies in a trainer's dump folder: which files belong together, and whether their writer is done."""

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from app.ingest import FORMATS, File, Format, detect, unwrap
from app.ingest import names as in_names
from app.ingest.record import Source
from app.settings import Settings

#: Names of files that are being written, or that no trainer wrote.
UNFINISHED = ("*.tmp", "*.temp", "*.part", "*.partial", "*.incomplete", "*.lock", "*.swp", "*~")
MARKERS = frozenset(known.marker for known in FORMATS if known.marker)
BLOCK = 1 << 20

#: (name below the folder, size, time of change) of each file.
Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are one upload. `finished`: their writer said so with a marker."""

    name: str
    signature: Signature
    finished: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.signature]


@dataclass(frozen=True, slots=True)
class Look:
    """What the content of a unit's first file says: its format, and the step in its name."""

    format: Format | None
    step: int | None


def scan(root: Path, pattern: str, folders: bool) -> dict[str, Unit]:
    """The units in the folder now, by name. `folders`: each folder in it is one unit, its own files too.

    Without it every file is one, but those in a folder with a marker, which are one together.
    """
    held: dict[str, list[tuple[str, int, int]]] = {}
    marked: set[str] = set()
    for name, entry in sorted(files(root)):
        folder, _, last = name.rpartition("/")
        if last in MARKERS:
            marked.add(folder)
        elif not matches(name, pattern):
            continue
        held.setdefault(folder, []).append((name, entry.st_size, entry.st_mtime_ns))
    units: dict[str, Unit] = {}
    if folders:
        tops: dict[str, list[tuple[str, int, int]]] = {}
        for inside in held.values():
            for file in inside:
                top, slash, _ = file[0].partition("/")
                tops.setdefault(top if slash else file[0], []).append(file)
        return {top: Unit(top, tuple(sorted(inside))) for top, inside in tops.items()}
    for folder, inside in held.items():
        if folder in marked:
            if len(inside) > 1:
                units[folder or "."] = Unit(folder or ".", tuple(inside), True)
        else:
            units |= {file[0]: Unit(file[0], (file,)) for file in inside}
    return units


def files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below the folder by its name from there; hidden and unfinished ones are left out."""
    for place, folders, inside in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in inside:
            if name.startswith(".") or any(fnmatch(name, ending) for ending in UNFINISHED):
                continue
            path = Path(place, name)
            try:
                yield path.relative_to(root).as_posix(), path.stat()
            except OSError:  # gone meanwhile
                continue


def matches(name: str, pattern: str) -> bool:
    """Whether the name from the folder on, or its last part, is as the pattern says."""
    return fnmatch(name, pattern) or fnmatch(name.rpartition("/")[2], pattern)


def whole(path: Path) -> bool:
    """Whether the end of the file is where a file of its kind ends, as far as that can be told cheaply."""
    with open(path, "rb") as file:
        head = file.read(4)
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(max(0, size - 4))
        tail = file.read(4)
    if head == b"PAR1":
        return tail == b"PAR1" and size > 8
    if head == b"PK\x03\x04":
        return zipfile.is_zipfile(path)
    return head[:1] != b"{" or tail[-1:] in (b"\n", b"}")


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the files' contents, in their order."""
    state = hashlib.sha256()
    for path in paths:
        own = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                own.update(block)
        state.update(own.digest())
    return state.hexdigest()


def look(path: Path, name: str, settings: Settings) -> Look:
    """Recognise the file by its content; archives by the first file in them."""
    for source in unwrap(File(path, name), settings):
        if isinstance(source, Source):
            found = detect(source, settings)
            said = in_names.step(source, bare=True)
            return Look(found if isinstance(found, Format) else None, said[0] if said else None)
        break
    return Look(None, None)


def companions(
    root: Path, name: str, found: Format, known: Mapping[str, Unit], settings: Settings
) -> list[str]:
    """Names of the files in the same folder that are metadata of files of this format."""
    folder = name.rpartition("/")[0]
    if not any(found.name in other.of for other in FORMATS if other.companion):
        return []
    beside = [other for other in known if other != name and other.rpartition("/")[0] == folder]
    made = []
    for other in beside:
        its = look(root / other, other, settings).format
        if its is not None and its.companion and found.name in its.of:
            made.append(other)
    return made
