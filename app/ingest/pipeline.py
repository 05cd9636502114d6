"""From files to records: recognise, join, read, drop repeats, group. What a job iterates, and what a resumed
job replays.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from app.errors import BadRequest, TooLarge
from app.ingest import plan as plans
from app.ingest.beside import MEMO, Beside
from app.ingest.companions import Companions
from app.ingest.duplicates import Duplicates
from app.ingest.expand import Caps, DamagedStream
from app.ingest.formats import FORMATS
from app.ingest.groups import Groups
from app.ingest.joins import Joins
from app.ingest.jsonable import without_arrays
from app.ingest.limits import over
from app.ingest.mapping import Asked, Remembered
from app.ingest.notes import Notes
from app.ingest.options import Options
from app.ingest.plan import ROWS, SIDE, Place, Plan
from app.ingest.record import File, Format, Header, Item, Problem, Rollout, Source, Unreadable, shown
from app.ingest.sources import damaged, unwrap
from app.ingest.token_sums import derive_reward
from app.settings import Settings


class Reading(Iterator[Item]):
    """The items of an upload, in an order that depends on nothing but files, options and settings.

    `position` of `total` spooled bytes are consumed. Stop iterating to cancel; `close` frees what is open.
    """

    def __init__(self, files: Sequence[File], options: Options, settings: Settings, asked: Asked) -> None:
        self.total = sum(file.path.stat().st_size for file in files)
        self._state = _State()
        self._items: Generator[Item] = _read_files(files, options, settings, asked, self._state)

    def __next__(self) -> Item:
        item = next(self._items)
        return shown(item) if isinstance(item, Problem) else item

    @property
    def position(self) -> int:
        return min(self.total, self._state.position())

    def close(self) -> None:
        self._items.close()


@dataclass(slots=True)
class _State:
    """Where the reading is: the furthest byte of each file, and the source that is open."""

    furthest: dict[int, int] = field(default_factory=dict)
    file: int = 0
    source: Source | None = None

    def position(self) -> int:
        if self.source is not None:
            self.furthest[self.file] = max(self.furthest.get(self.file, 0), self.source.position())
        return sum(self.furthest.values())


def read_all(
    files: Sequence[File],
    options: Options,
    settings: Settings,
    remembered: Mapping[str, Remembered] | None = None,
) -> Reading:
    """Iterate over `Header`s, `Rollout`s and `Problem`s of all files of an upload.

    Each file that is read gives one `Header` (with `format`; `run` where the file or the caller names one)
    before its rollouts; a file whose rows complete those of others (a join) gives one only where rows are
    left. A file that cannot be read gives one `Problem` with severity "error" and no row.
    Every rollout has a group id and a digest; repeats are dropped as asked. With several files, items carry
    `file`.
    `remembered`: which column was what in tables, by their shape.
    Raises BadRequest (an unknown format or rule) and TooLarge (a limit; nothing should be kept).
    """
    if options.format not in ("auto", *(known.name for known in FORMATS)):
        names = ", ".join(known.name for known in FORMATS)
        raise BadRequest(f"format={options.format!r} is not known: use auto, {names}.")
    return Reading(files, options, settings, Asked.of(options, remembered or {}))


def _read_files(
    files: Sequence[File], options: Options, settings: Settings, asked: Asked, state: _State
) -> Generator[Item]:
    plan = plans.make(files, options.format, settings, asked)
    with closing(_Pipeline(plan, options, settings)) as pipeline:
        last = plan.last()
        for phase, places in plan.phases():
            caps = Caps(settings)
            for index, file in enumerate(files):
                if index in places:
                    yield from _sources(index, file, places[index], caps, pipeline, state, len(files) > 1)
                if last.get(index, ROWS) == phase:
                    state.source = None
                    state.furthest[index] = file.path.stat().st_size
        yield from pipeline.rest()
        yield from pipeline.summary()


def _sources(
    index: int,
    file: File,
    places: dict[int, Place],
    caps: Caps,
    pipeline: "_Pipeline",
    state: _State,
    several: bool,
) -> Iterator[Item]:
    """The items of those sources of one file that are to be read now."""
    for number, source in enumerate(unwrap(file, pipeline.settings, caps)):
        place = places.get(number)
        if place is not None and isinstance(source, Source):
            state.file, state.source = index, source
            yield from pipeline.read(source, place, place.name if source.member or several else None)
        elif place is not None and isinstance(source, Problem):
            yield replace(source, file=file.name) if several else source


class _Pipeline:
    """What happens to each file's items, and what is remembered from file to file."""

    def __init__(self, plan: Plan, options: Options, settings: Settings) -> None:
        self.settings = settings
        self._plan, self._options = plan, options
        self._groups, self._duplicates = Groups(options), Duplicates(options)
        self._joins, self._companions = Joins(plan.joins, settings), Companions()
        self._beside = Beside(settings)
        self._rows = self._taken = 0
        self._name: str | None = None
        self._headers: dict[str | None, Header] = {}  # of the files whose rows wait for others

    def close(self) -> None:
        self._joins.close()
        self._beside.close()

    def read(self, source: Source, place: Place, name: str | None) -> Iterator[Item]:
        """The items of one file, with `file` set to `name`."""
        self._name = name
        if isinstance(place.found, Problem):
            items: Iterator[Item] = iter((place.found,))
        elif place.found.kept:
            items = self._part(source)
        elif place.found.companion:
            items = self._companion(source, place.found)
        else:
            items = self._file(source, place.found, self._plan.phase(place) == SIDE)
        for item in items:
            yield replace(item, file=name) if name is not None and isinstance(item, Problem) else item

    def _part(self, source: Source) -> Iterator[Item]:
        try:
            self._beside.keep(source)
        except DamagedStream as error:
            yield damaged(source.name, error)

    def _companion(self, source: Source, found: Format) -> Iterator[Item]:
        for item in _guarded(found, source, self.settings):
            if isinstance(item, Header):
                self._companions.put(source.name, source.trail, found, item)
            elif isinstance(item, Problem):
                yield item

    def _file(self, source: Source, found: Format, side: bool) -> Iterator[Item]:
        self._groups.next_file()
        source.memo[MEMO] = self._beside
        notes, taken, first = Notes(), 0, None
        for item in _guarded(found, source, self.settings):
            if isinstance(item, Header):
                header = self._header(item, found, source)
                if side:
                    self._headers[self._name] = header
                else:
                    yield header
                continue
            if isinstance(item, Rollout):
                stays = self._rollout(item, found, notes, side)
                taken += stays is None
                if stays is None:
                    continue
                item = stays
            elif item.severity == "error":
                self._count(item.row is not None)
            if isinstance(item, Rollout) or item.code == "duplicate_row":
                taken += 1
            elif item.severity == "error":
                first = first or item
            yield item
        yield from notes.summary()
        self._taken += taken
        if not taken and (first is None or first.row is not None):
            said = (
                f"no row could be read as {found.title}. The first one: {first.message}."
                if first
                else (f"the file has no rows ({found.title}).")
            )
            yield Problem(f"{source.name}: {said}", "no_rows", "error")

    def _header(self, header: Header, found: Format, source: Source) -> Header:
        header.format = found.name
        header.file = self._name
        self._companions.add_to(header, found, source.trail)
        recorded = header.run or header.raw.get("run")
        header.run = self._options.run or (recorded if isinstance(recorded, str) else None)
        return header

    def _rollout(self, rollout: Rollout, found: Format, notes: Notes, side: bool) -> Rollout | Problem | None:
        """The row as it goes on; why it does not; or None where it waits for the row that it completes."""
        rollout.file = self._name
        without_arrays(rollout.extra)
        refused = over(rollout, self.settings)
        if refused is not None:
            self._count()
            return refused
        self._say_place(rollout, notes)
        if side:
            waits = self._joins.put(found.name, rollout)
            if waits is not False:
                return None if waits is True else waits
        return self._keep(rollout, found)

    def _keep(self, rollout: Rollout, found: Format) -> Rollout | Problem:
        self._count()
        repeat = self._duplicates.check(rollout)
        if repeat is not None:
            return repeat
        self._joins.complete(found.name, rollout)
        derive_reward(rollout)
        self._groups.assign(rollout, found.groups)
        return rollout

    def _say_place(self, rollout: Rollout, notes: Notes) -> None:
        """Step and split as the caller says."""
        if (step := self._options.step) is not None:
            if rollout.step not in (None, step):
                notes.tally(
                    rollout.row, "step", "step_given", f"step {step} as asked, another step is in the file"
                )
            rollout.step = step
        if (split := self._options.split) is not None:
            if rollout.split not in (None, split):
                notes.tally(
                    rollout.row, "split", "split_given", f"split {split} as asked, another one is in the file"
                )
            rollout.split = split

    def _count(self, is_row: bool = True) -> None:
        self._rows += is_row
        if self._rows > self.settings.max_rows:
            limit = f"{self.settings.max_rows:,} (VANTAGE_MAX_ROWS)"
            raise TooLarge(
                f"The upload has more rows than {limit}; nothing of it was kept. Send it in parts."
            )

    def rest(self) -> Iterator[Item]:
        """Rows that waited for others in vain, as rows of their own, each file's header before them."""
        formats = {known.name: known for known in FORMATS}
        last: tuple[str | None] | None = None
        for name, rollout in self._joins.rest():
            if last != (rollout.file,):
                last = (rollout.file,)
                yield self._headers[rollout.file]
                self._groups.next_file()
            yield self._keep(rollout, formats[name])

    def summary(self) -> Iterator[Problem]:
        """What there is to say about all files together."""
        yield from self._joins.summary()
        yield from self._companions.summary(self._taken)
        yield from self._beside.summary()
        yield from self._companions.missing(place.trail for place in self._plan.places)
        yield from plans.complete(self._plan)
        yield from self._duplicates.summary()
        yield from self._groups.summary()


def _guarded(found: Format, source: Source, settings: Settings) -> Iterator[Item]:
    """The format's items; where the file breaks off or turns out unreadable, one problem ends them."""
    try:
        yield from found.read(source, settings)
    except DamagedStream as error:
        yield damaged(source.name, error)
    except Unreadable as error:
        yield Problem(f"{source.name}: {error}", error.code, "error")
