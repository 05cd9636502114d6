"""From files to records: recognise, read, drop repeats, group. What a job iterates, and what a resumed job
replays.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from app.errors import BadRequest, TooLarge
from app.ingest import refuse
from app.ingest.duplicates import Duplicates
from app.ingest.expand import Caps, DamagedStream
from app.ingest.formats import FORMATS
from app.ingest.groups import Groups
from app.ingest.notes import Notes
from app.ingest.options import Options
from app.ingest.record import File, Format, Header, Item, Problem, Rollout, Source, Unreadable
from app.ingest.sources import damaged, unwrap
from app.settings import Settings


class Reading(Iterator[Item]):
    """The items of an upload, in an order that depends on nothing but files, options and settings.

    `position` of `total` spooled bytes are consumed. Stop iterating to cancel; `close` frees what is open.
    """

    def __init__(self, files: Sequence[File], options: Options, settings: Settings) -> None:
        self.total = sum(file.path.stat().st_size for file in files)
        self._state = _State()
        self._items: Generator[Item] = _read_files(files, options, settings, self._state)

    def __next__(self) -> Item:
        return next(self._items)

    @property
    def position(self) -> int:
        return min(self.total, self._state.position())

    def close(self) -> None:
        self._items.close()


@dataclass(slots=True)
class _State:
    """Where the reading is: bytes of the files before, and the source that is open."""

    before: int = 0
    source: Source | None = None

    def position(self) -> int:
        return self.before + (self.source.position() if self.source is not None else 0)


def read_all(files: Sequence[File], options: Options, settings: Settings) -> Reading:
    """Iterate over `Header`s, `Rollout`s and `Problem`s of all files of an upload.

    Each file that is read gives one `Header` (with `format`; `run` where the file or the caller names one)
    before its rollouts. A file that cannot be read gives one `Problem` with severity "error" and no row.
    Every rollout has a group id and a digest; repeats are dropped as asked. With several files, items carry
    `file`.
    Raises BadRequest (an unknown format or rule) and TooLarge (a limit; nothing should be kept).
    """
    if options.format not in ("auto", *(known.name for known in FORMATS)):
        names = ", ".join(known.name for known in FORMATS)
        raise BadRequest(f"format={options.format!r} is not known: use auto, {names}.")
    return Reading(files, options, settings)


def _read_files(
    files: Sequence[File], options: Options, settings: Settings, state: _State
) -> Generator[Item]:
    pipeline = _Pipeline(options, settings)
    caps = Caps(settings)
    for file in files:
        for source in unwrap(file, settings, caps):
            if isinstance(source, Problem):
                yield replace(source, file=file.name) if len(files) > 1 else source
                continue
            state.source = source
            yield from pipeline.read(source, source.name if source.member or len(files) > 1 else None)
        state.before, state.source = state.before + file.path.stat().st_size, None
    yield from pipeline.summary()


class _Pipeline:
    """What happens to each file's items, and what is remembered from file to file."""

    def __init__(self, options: Options, settings: Settings) -> None:
        self._options, self._settings = options, settings
        self._groups, self._duplicates = Groups(options), Duplicates(options)
        self._rows = 0
        self._name: str | None = None

    def read(self, source: Source, name: str | None) -> Iterator[Item]:
        """The items of one file, with `file` set to `name`."""
        self._name = name
        for item in self._file(source):
            yield replace(item, file=name) if name is not None and isinstance(item, Problem) else item

    def _file(self, source: Source) -> Iterator[Item]:
        found = detect(source, self._settings, self._options.format)
        if isinstance(found, Problem):
            yield found
            return
        self._groups.next_file()
        notes, taken, first = Notes(), 0, None
        for item in _guarded(found, source, self._settings):
            if isinstance(item, Header):
                yield self._header(item, found)
                continue
            if isinstance(item, Rollout):
                item = self._rollout(item, found, notes)
            elif item.severity == "error":
                self._count(item.row is not None)
            if isinstance(item, Rollout) or item.code == "duplicate_row":
                taken += 1
            elif item.severity == "error":
                first = first or item
            yield item
        yield from notes.summary()
        if not taken and (first is None or first.row is not None):
            why = f" The first one: {first.message}." if first else ""
            yield Problem(f"{source.name}: no row could be read as {found.title}.{why}", "no_rows", "error")

    def _header(self, header: Header, found: Format) -> Header:
        header.format = found.name
        header.file = self._name
        recorded = header.run or header.raw.get("run")
        header.run = self._options.run or (recorded if isinstance(recorded, str) else None)
        return header

    def _rollout(self, rollout: Rollout, found: Format, notes: Notes) -> Rollout | Problem:
        self._count()
        rollout.file = self._name
        if (rollout.length or 0) > self._settings.max_tokens_per_rollout:
            limit = f"{self._settings.max_tokens_per_rollout:,} (VANTAGE_MAX_TOKENS_PER_ROLLOUT)"
            message = (
                f"row {rollout.row}: {rollout.length:,} tokens, more than {limit}; the row was not taken"
            )
            return Problem(message, "too_many_tokens", "error", rollout.row)
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
        repeat = self._duplicates.check(rollout)
        if repeat is not None:
            return repeat
        self._groups.assign(rollout, found.groups)
        return rollout

    def _count(self, is_row: bool = True) -> None:
        self._rows += is_row
        if self._rows > self._settings.max_rows:
            limit = f"{self._settings.max_rows:,} (VANTAGE_MAX_ROWS)"
            raise TooLarge(
                f"The upload has more rows than {limit}; nothing of it was kept. Send it in parts."
            )

    def summary(self) -> Iterator[Problem]:
        """What there is to say about all files together."""
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


def detect(source: Source, settings: Settings, name: str = "auto") -> Format | Problem:
    """The format that reads this source, or the problem that says what it is instead."""
    if name != "auto":
        return next(known for known in FORMATS if known.name == name)
    try:
        for known in FORMATS:
            if known.sniff(source, settings):
                return known
        return refuse.explain(source, settings)
    except DamagedStream as error:
        return damaged(source.name, error)
