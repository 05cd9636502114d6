"""Files without rows that lie beside the rows: metadata that goes into the headers of the files it is of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from app.ingest.formats import FORMATS
from app.ingest.names import folder_of
from app.ingest.record import Format, Header, Problem

NAMED = 5


@dataclass(slots=True)
class _Companion:
    name: str
    folder: str
    format: Format
    header: Header
    used: bool = False

    def goes_with(self, format: Format, trail: str) -> bool:
        """Whether the file is of a format it is of, in its folder or below, and named as it says."""
        folder, name = folder_of(trail), trail.rpartition("/")[2]
        below = not self.folder or folder == self.folder or folder.startswith(f"{self.folder}/")
        return format.name in self.format.of and below and name.startswith(self.header.prefix)


class Companions:
    def __init__(self) -> None:
        self._all: list[_Companion] = []

    def put(self, name: str, trail: str, format: Format, header: Header) -> None:
        self._all.append(_Companion(name, folder_of(trail), format, header))

    def add_to(self, header: Header, format: Format, trail: str) -> None:
        """Put what the companions of this file say under what the file says itself."""
        raw: dict[str, Any] = {}
        for companion in self._all:
            if companion.goes_with(format, trail):
                companion.used = True
                raw |= companion.header.raw
                header.run = header.run or companion.header.run
        header.raw = raw | header.raw

    def missing(self, trails: Iterable[str]) -> Iterator[Problem]:
        """Files that a companion names and the upload has not in its folder."""
        there = set(trails)
        for companion in self._all:
            folder = f"{companion.folder}/" if companion.folder else ""
            gone = [name for name in companion.header.expects if folder + name not in there]
            if gone:
                more = f" and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
                count = f"{len(gone)} of {len(companion.header.expects)} files"
                shown = ", ".join(gone[:NAMED])
                message = f"{companion.name} names {count} that are not in the upload: {shown}{more}"
                yield Problem(message, "missing_files", "warning", file=companion.name)

    def summary(self, rows: int) -> Iterator[Problem]:
        """Which were used; of those that were not, with what they have to be sent."""
        for companion in self._all:
            title = companion.format.title
            if companion.used:
                message = f"{companion.name}: {title}, kept with the rows beside it"
                yield Problem(message, "companion", "info", file=companion.name)
                continue
            titles = " or ".join(known.title for known in FORMATS if known.name in companion.format.of)
            if companion.format.of:
                message = f"{companion.name}: this is {title}, without rows; send it together with {titles}"
            else:
                message = f"{companion.name}: this is {title}; it holds no rollouts and was passed over"
            yield Problem(
                f"{message}.", "companion" if rows else "no_rows", "warning" if rows else "error",
                file=companion.name,
            )  # fmt: skip
