"""What lies in an upload before anything of it is read: which format each file has, and what is read first.

First the companions (metadata beside rows), then the sides of joins, then everything else in its order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from app.ingest import refuse, table
from app.ingest.expand import Caps, DamagedStream
from app.ingest.formats import FORMATS, JOINS
from app.ingest.mapping import Asked
from app.ingest.names import folder_of
from app.ingest.notes import listed
from app.ingest.record import File, Format, Join, Problem, Source
from app.ingest.sources import damaged, unwrap
from app.settings import Settings

COMPANION, SIDE, ROWS = range(3)
#: At most so many missing numbers are named.
NAMED = 8


@dataclass(frozen=True, slots=True)
class Place:
    """One file of the upload, archives undone: the `number`-th (from 0) that `unwrap` gives of `file`.

    `name` is no other file's, so that their rows are told apart.
    """

    file: int
    number: int
    name: str
    trail: str
    found: Format | Problem

    @property
    def format(self) -> Format | None:
        return self.found if isinstance(self.found, Format) else None


@dataclass(slots=True)
class Plan:
    places: list[Place] = field(default_factory=list)
    joins: tuple[Join, ...] = ()

    def phase(self, place: Place) -> int:
        known = place.format
        if known is None:
            return ROWS
        if known.companion:
            return COMPANION
        return SIDE if any(join.side == known.name for join in self.joins) else ROWS

    def phases(self) -> Iterator[tuple[int, dict[int, dict[int, Place]]]]:
        """For each phase that has any: file -> number -> place."""
        for phase in (COMPANION, SIDE, ROWS):
            chosen: dict[int, dict[int, Place]] = {}
            for place in self.places:
                if self.phase(place) == phase:
                    chosen.setdefault(place.file, {})[place.number] = place
            if chosen:
                yield phase, chosen

    def last(self) -> dict[int, int]:
        """The phase after which each file is done with."""
        done: dict[int, int] = {}
        for place in self.places:
            done[place.file] = max(done.get(place.file, COMPANION), self.phase(place))
        return done


def make(files: Sequence[File], format: str, settings: Settings, asked: Asked) -> Plan:
    """Look at the beginning of every file; `asked` concerns tables. Raises TooLarge."""
    plan, caps, names = Plan(), Caps(settings), set[str]()
    for index, file in enumerate(files):
        for number, source in enumerate(unwrap(file, settings, caps)):
            if isinstance(source, Source):
                found = detect(source, settings, format, asked)
                name = _unlike(names, source.name, source.trail)
                plan.places.append(Place(index, number, name, source.trail, found))
            else:
                plan.places.append(Place(index, number, file.name, file.name, source))
    present = {place.format.name for place in plan.places if place.format}
    plan.joins = tuple(join for join in JOINS if {join.main, join.side} <= present)
    return plan


def _unlike(taken: set[str], name: str, trail: str) -> str:
    """The file's name, with its archive's before it or a number behind it where another one has it."""
    names = chain((name, trail), (f"{trail} ({count})" for count in range(2, len(taken) + 3)))
    free = next(one for one in names if one not in taken)
    taken.add(free)
    return free


def detect(
    source: Source, settings: Settings, name: str = "auto", columns: Asked = table.NOTHING_ASKED
) -> Format | Problem:
    """The format that reads this source, or the problem that says what it is instead.

    A format that is asked for by name is taken, except for files that go with others; a table whose columns
    somebody said before is read by them, whatever else could read it.
    """
    formats = table.bound(FORMATS, columns)
    asked = None
    try:
        if name == "auto" and table.claims(source, settings, columns):
            name = table.NAME
        asked = next((known for known in formats if known.name == name), None)
        for known in formats:
            if (asked is None or known.companion) and known.sniff(source, settings):
                return known
        return asked or refuse.explain(source, settings)
    except DamagedStream as error:
        return damaged(source.name, error)


def complete(plan: Plan) -> Iterator[Problem]:
    """What the names say is missing: numbers between files, the marker of a finished folder."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for place in plan.places:
        known = place.format
        if known is None or known.shard is None or (match := known.shard.search(place.trail)) is None:
            continue
        series = place.trail[: match.start(1)] + "#" + place.trail[match.end(1) :]
        numbers.setdefault((known.name, series), set()).add(int(match[1]))
    for (_, series), found in numbers.items():
        missing = _gaps(found)
        if missing:
            message = (
                f"of the files {series.rpartition('/')[2]}, numbers {listed_numbers(missing)} are not in the "
                f"upload, although {max(found)} is: what they hold is missing. Upload all of them together."
            )
            yield Problem(message, "missing_files", "warning")
    yield from _markers(plan)


def _gaps(found: set[int]) -> list[int]:
    """Numbers from 0 to the largest that do not occur."""
    if max(found) > 100_000:
        return []
    return [number for number in range(max(found)) if number not in found]


def listed_numbers(numbers: list[int]) -> str:
    return listed(numbers[:NAMED], len(numbers)).removeprefix("rows ").removeprefix("row ")


def _markers(plan: Plan) -> Iterator[Problem]:
    marked = {
        folder_of(place.trail) for place in plan.places if place.format and place.format.companion
        and place.format.name.endswith("-marker")
    }  # fmt: skip
    wanted: dict[str, str] = {}
    for place in plan.places:
        if place.format and place.format.marker:
            wanted.setdefault(folder_of(place.trail), place.format.marker)
    missing = [(folder, marker) for folder, marker in wanted.items() if folder not in marked]
    if missing:
        folder, marker = missing[0]
        where = f"{folder}/" if folder else ""
        more = f" (and {len(missing) - 1} more folders)" if len(missing) > 1 else ""
        message = (
            f"the marker {where}{marker} is not in the upload{more}: whether all ranks had written when the "
            "files were copied cannot be told."
        )
        yield Problem(message, "no_marker", "info")
