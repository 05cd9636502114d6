"""`vantage watch`: follows a trainer's dump folder and hands each finished file to a server, once.

What was handed over is in a state file; should that be lost, the server knows the same bytes in the same run.
A file that is written anew is handed over again: its batches replace those of the same step in every figure.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from watchfiles import watch as changes

from app import folder
from app.errors import AppError
from app.folder import Signature, Unit
from app.jobs import FINAL
from app.local import describe
from app.remote import Away, Changed, Refused, Remote
from app.sending import Ticket, upload
from app.settings import Settings

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
#: A file that does not end as its kind does gets so many times the quiet time.
PATIENCE = 10
#: Longest time between two looks at the folder, should its disk not tell of changes.
TICK = 2.0


@dataclass(frozen=True, slots=True)
class Watched:
    """What to follow, and how. `quiet`: seconds without a change after which a file counts as written."""

    root: Path
    run: str
    pattern: str = "*"
    quiet: float = 2.0
    split: str | None = None
    format: str = "auto"
    group_by: str | None = None
    folders: bool = False
    poll: bool = False


@dataclass(slots=True)
class Taken:
    """A unit that was handed over. `state`: of the upload, "refused" where the server did not take it."""

    signature: Signature
    sha256: str
    upload: str | None
    state: str


@dataclass(slots=True)
class Memory:
    """The state file: what was handed over, by the unit's name, and what of it is only in part at the server.
    Written as a whole or not at all."""

    path: Path
    taken: dict[str, Taken] = field(default_factory=dict)
    sending: dict[str, Ticket] = field(default_factory=dict)

    def load(self) -> None:
        try:
            held = json.loads(self.path.read_text())
            self.taken = {name: _taken(entry) for name, entry in held["taken"].items()}
            self.sending = {name: Ticket(**ticket) for name, ticket in held.get("sending", {}).items()}
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise AppError(
                f"The state file {self.path.name} cannot be read ({type(error).__name__}). Delete it: what "
                "the server has already is not taken twice."
            ) from error

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_suffix(".tmp")
        held = {
            name: {"signature": t.signature, "sha256": t.sha256, "upload": t.upload, "state": t.state}
            for name, t in self.taken.items()
        }
        tickets = {name: asdict(ticket) for name, ticket in self.sending.items()}
        written.touch(mode=0o600)  # it holds the secrets of what is being sent
        written.write_text(json.dumps({"taken": held, "sending": tickets}))
        written.replace(self.path)


@dataclass(frozen=True, slots=True)
class Sending:
    """Where the ticket of one unit is kept."""

    memory: Memory
    name: str

    def read(self) -> Ticket | None:
        return self.memory.sending.get(self.name)

    def keep(self, ticket: Ticket | None) -> None:
        if ticket is None:
            self.memory.sending.pop(self.name, None)
        else:
            self.memory.sending[self.name] = ticket
        self.memory.save()


def state_path(settings: Settings, watched: Watched, url: str) -> Path:
    """Where it is remembered what was taken of this folder for this run at this server."""
    said = f"{watched.root.resolve()}\n{watched.run}\n{url.rstrip('/')}\n{watched.split}"
    return settings.data_dir / "watch" / f"{hashlib.sha256(said.encode()).hexdigest()[:16]}.json"


def _taken(entry: dict[str, Any]) -> Taken:
    signature = tuple((str(name), int(size), int(changed)) for name, size, changed in entry["signature"])
    return Taken(signature, entry["sha256"], entry["upload"], entry["state"])


def follow(
    watched: Watched, remote: Remote, memory: Memory, settings: Settings, stop: Event
) -> Iterator[str]:
    """Lines for a terminal, until `stop` is set. Raises AppError where the folder cannot be followed."""
    memory.load()
    watcher = Watcher(watched, remote, memory, settings)
    yield from watcher.look()
    tick = round(1000 * min(TICK, max(0.05, watched.quiet / 2)))
    told = changes(
        watched.root, watch_filter=None, stop_event=stop, debounce=200, rust_timeout=tick,
        yield_on_timeout=True, raise_interrupt=False, force_polling=watched.poll or None,
    )  # fmt: skip
    for _ in told:
        yield from watcher.look()
        if stop.is_set():
            return


@dataclass(slots=True)
class Watcher:
    """`look`, again and again, hands over what is ready and asks what became of what was handed over."""

    watched: Watched
    remote: Remote
    memory: Memory
    settings: Settings
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, tuple[Signature, float]] = field(default_factory=dict)
    _said: set[tuple[str, Signature]] = field(default_factory=set)
    _pause: float = 0.0
    _retry_at: float = 0.0

    def look(self) -> Iterator[str]:
        units = folder.scan(self.watched.root, self.watched.pattern, self.watched.folders)
        now = self.clock()
        self._since = {
            name: self._since[name]
            if name in self._since and self._since[name][0] == unit.signature
            else (unit.signature, now)
            for name, unit in units.items()
        }
        if now < self._retry_at:
            return
        try:
            for unit in self._ready(units.values(), now):
                yield from self._take(unit, units)
            yield from self._settle()
        except Away as error:
            if not self._pause:
                yield f"waiting for the server: {error.detail}"
            self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
            self._retry_at = now + self._pause
            return
        if self._pause:
            yield "the server answers again"
        self._pause = 0.0

    def _ready(self, units: Iterable[Unit], now: float) -> Iterator[Unit]:
        """New and changed units whose writer is done, oldest first."""
        fresh = [u for u in units if u.name not in self.memory.taken
                 or self.memory.taken[u.name].signature != u.signature]  # fmt: skip
        for unit in sorted(fresh, key=lambda unit: max(changed for _, _, changed in unit.signature)):
            still = now - self._since[unit.name][1]
            enough = self.watched.quiet * (1 if all(map(self._whole, unit.names)) else PATIENCE)
            if unit.finished or still >= enough:
                yield unit

    def _whole(self, name: str) -> bool:
        try:
            return folder.whole(self.watched.root / name)
        except OSError:
            return False

    def _take(self, unit: Unit, units: dict[str, Unit]) -> Iterator[str]:
        """Hand the unit over, unless it holds what was handed over before."""
        paths = [self.watched.root / name for name in unit.names]
        try:
            sha256 = folder.digest(paths)
            before = self.memory.taken.get(unit.name)
            if before is not None and before.sha256 == sha256 and before.state != "refused":
                before.signature = unit.signature
                self.memory.save()
                return
            yield from self._hand_over(unit, units, sha256)
        except (OSError, Changed):  # written to, moved or deleted meanwhile; the next look knows
            return

    def _hand_over(self, unit: Unit, units: dict[str, Unit], sha256: str) -> Iterator[str]:
        found = folder.look(self.watched.root / unit.names[0], self._shown(unit.names[0]), self.settings)
        names = list(unit.names)
        if len(names) == 1 and found.format is not None and not self.watched.folders:
            if found.format.companion:
                return
            if found.format.marker:
                yield from self._once(unit, f"{unit.name}: waits for {found.format.marker} beside it")
                return
            names += folder.companions(self.watched.root, unit.name, found.format, units, self.settings)
        try:
            receipt = self._upload(unit.name, names, sha256)
            if found.step is not None and self._is_others(receipt["id"], unit.name):
                # The bytes of two steps are the same, and only their names tell them apart.
                receipt = self._upload(unit.name, names, sha256, step=found.step)
        except Refused as error:
            self._remember(unit, sha256, None, "refused")
            yield f"{unit.name}: not taken: {error.detail}"
            return
        self._remember(unit, sha256, receipt["id"], "queued")

    def _upload(self, unit: str, names: list[str], sha256: str, **more: Any) -> dict[str, Any]:
        watched = self.watched
        files = [(watched.root / name, self._shown(name)) for name in names]
        query = {"run": watched.run, "split": watched.split, "format": watched.format}
        query |= {"group_by": watched.group_by, **more}
        of = hashlib.sha256(json.dumps([sha256, names, query]).encode()).hexdigest()
        return upload(self.remote, files, query, of, Sending(self.memory, unit))

    def _shown(self, name: str) -> str:
        """The folder leads the name, as it may say which split this is."""
        return f"{self.watched.root.resolve().name}/{name}"

    def _is_others(self, upload: str, name: str) -> bool:
        return any(taken.upload == upload for other, taken in self.memory.taken.items() if other != name)

    def _once(self, unit: Unit, line: str) -> Iterator[str]:
        if (unit.name, unit.signature) not in self._said:
            self._said.add((unit.name, unit.signature))
            yield line

    def _remember(self, unit: Unit, sha256: str, upload: str | None, state: str) -> None:
        self.memory.taken[unit.name] = Taken(unit.signature, sha256, upload, state)
        self.memory.save()

    def _settle(self) -> Iterator[str]:
        """What became of the uploads that were not read yet."""
        for name, taken in self.memory.taken.items():
            if taken.upload is None or taken.state in FINAL:
                continue
            try:
                receipt = self.remote.get(f"/uploads/{taken.upload}", problems=3)
            except Refused as error:
                receipt = {"state": "failed", "error": error.detail}
            if receipt["state"] in FINAL:
                taken.state = receipt["state"]
                self.memory.save()
                yield from self._report(name, receipt)

    def _report(self, name: str, receipt: dict[str, Any]) -> Iterator[str]:
        if "counts" not in receipt:
            yield f"{name}: {receipt['state']}: {receipt['error']}"
            return
        yield from describe({**receipt, "filename": name}, shown=3)
