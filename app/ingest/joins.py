"""Rows of two formats that are the same rollouts: the side rows wait in a temporary file until the main rows
come by; what found nothing is told and kept.

Memory holds a key, an offset and a digest for each side row, never the row.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from app.ingest.duplicates import digest
from app.ingest.formats import FORMATS
from app.ingest.notes import LISTED, Notes, listed
from app.ingest.record import PROMPT_FIELD, Join, Problem, Rollout
from app.settings import Settings
from storage.arrays import is_missing

NOT_JOINED = frozenset(("row", "file", "digest", "derived", "tokens", "extra", PROMPT_FIELD))
VALUES = tuple(item.name for item in fields(Rollout) if item.name not in NOT_JOINED)
#: A difference in these says nothing: each file has its own. The side row's goes to `extra`.
OWN = frozenset(("sample_index", "sample_id", "micro_batch", "rank", "data_source"))


@dataclass(slots=True)
class _Waiting:
    offset: int
    digest: bytes
    used: bool = False


@dataclass(slots=True)
class _State:
    """One join: the side rows that wait, and what became of the main rows."""

    join: Join
    waiting: dict[bytes, list[_Waiting]] = field(default_factory=dict)
    main_rows: int = 0
    matched: int = 0
    alone: list[int] = field(default_factory=list)  # the first main rows that found no side row
    left: list[int] = field(default_factory=list)
    left_count: int = 0
    notes: Notes = field(default_factory=Notes)


class Joins:
    """`put` side rows, `complete` main rows, take the `rest` at the end. `close` deletes the file."""

    def __init__(self, joins: tuple[Join, ...], settings: Settings) -> None:
        self._states = [_State(join) for join in joins]
        self._file: IO[bytes] | None = _temporary(settings) if joins else None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, format: str, rollout: Rollout) -> Problem | bool:
        """True where the row now waits; False where it cannot be joined; a problem where it is a repeat."""
        state = next((state for state in self._states if state.join.side == format), None)
        key = None if state is None else state.join.key(rollout)
        if state is None or key is None or self._file is None:
            return False
        rollout.digest = digest(rollout)
        mark = bytes.fromhex(rollout.digest)
        others = state.waiting.setdefault(key, [])
        if any(other.digest == mark for other in others):
            message = f"row {rollout.row}: repeats an earlier row of the upload exactly; left out"
            return Problem(message, "duplicate_row", "warning", rollout.row, None, rollout.file)
        others.append(_Waiting(self._file.seek(0, 2), mark))
        head, body = _packed(rollout)
        self._file.write(len(head).to_bytes(8, "little") + len(body).to_bytes(8, "little") + head + body)
        return True

    def complete(self, format: str, rollout: Rollout) -> None:
        """Add to a main row what its side row recorded."""
        for state in self._states:
            if state.join.main != format:
                continue
            state.main_rows += 1
            found = self._find(state, rollout)
            if found is None:
                if len(state.alone) < LISTED:
                    state.alone.append(rollout.row)
                continue
            state.matched += 1
            merge(rollout, found, state.join, state.notes)

    def _find(self, state: _State, rollout: Rollout) -> Rollout | None:
        """The side row: of several with the same key, the first that agrees in everything, else the first."""
        key = state.join.key(rollout)
        unused = [one for one in state.waiting.get(key, ()) if not one.used] if key is not None else []
        chosen: tuple[_Waiting, Rollout] | None = None
        for one in unused:
            side = self._load(one)
            if chosen is None or not differing(rollout, side, state.join):
                chosen = one, side
                if len(unused) == 1 or not differing(rollout, side, state.join):
                    break
        if chosen is None:
            return None
        chosen[0].used = True
        return chosen[1]

    def _load(self, waiting: _Waiting) -> Rollout:
        assert self._file is not None
        self._file.seek(waiting.offset)
        sizes = self._file.read(16)
        head = self._file.read(int.from_bytes(sizes[:8], "little"))
        return _unpacked(head, self._file.read(int.from_bytes(sizes[8:], "little")))

    def rest(self) -> Iterator[tuple[str, Rollout]]:
        """(format, row) of every side row that completed nothing, in the order in which they came."""
        for state in self._states:
            unused = [one for several in state.waiting.values() for one in several if not one.used]
            for one in sorted(unused, key=lambda one: one.offset):
                side = self._load(one)
                state.left_count += 1
                if len(state.left) < LISTED:
                    state.left.append(side.row)
                yield state.join.side, side

    def summary(self) -> Iterator[Problem]:
        """The completeness report: what was joined, missing on either side, in conflict."""
        titles = {known.name: known.title for known in FORMATS}
        for state in self._states:
            main, side = titles[state.join.main], titles[state.join.side]
            message = (
                f"{state.matched} of {state.main_rows} rows of {main} were completed from {side}, "
                f"matched by {state.join.by}"
            )
            yield Problem(message, "joined", "info")
            if alone := state.main_rows - state.matched:
                message = f"{listed(state.alone, alone)} of {main}: no row of {side} belongs to it"
                yield Problem(message, "join_missing", "warning")
            if state.left_count:
                message = (
                    f"{listed(state.left, state.left_count)} of {side}: no row of {main} belongs to it; "
                    "kept as a row of its own"
                )
                yield Problem(message, "join_left", "warning")
            yield from state.notes.summary()


def merge(main: Rollout, side: Rollout, join: Join, notes: Notes) -> None:
    """Everything that only the side row has; of what both have, what the join says."""
    conflicts = set(differing(main, side, join))
    for name in sorted(conflicts):
        message = f"{name} differs between {join.main} and {join.side}; the former was kept"
        notes.tally(main.row, name, "join_conflict", message, "warning")
    for name in VALUES:
        theirs = getattr(side, name)
        ours_derived = name in main.derived and name not in side.derived
        if name in OWN and None not in (getattr(main, name), theirs) and getattr(main, name) != theirs:
            main.extra[f"{join.side}.{name}"] = theirs
        elif theirs is not None and (getattr(main, name) is None or (ours_derived and name not in conflicts)):
            setattr(main, name, theirs)
            _carry(main, side, name)
    if main.prompt_ids is None and side.prompt_ids is not None:
        main.prompt_ids = side.prompt_ids
        _carry(main, side, PROMPT_FIELD)
    length = main.length
    for name, array in side.tokens.items():
        fits = length is None or array.shape[0] == length
        if fits and (name not in main.tokens or (join.exact == "side" and name not in conflicts)):
            main.tokens[name] = array
            _carry(main, side, name)
    for name, value in side.extra.items():
        main.extra.setdefault(name, value)


def _carry(main: Rollout, side: Rollout, name: str) -> None:
    main.derived.pop(name, None)
    if name in side.derived:
        main.derived[name] = side.derived[name]


def differing(main: Rollout, side: Rollout, join: Join) -> list[str]:
    """Fields that both record and that differ by more than the tolerance."""
    found = []
    for name in VALUES:
        ours, theirs = getattr(main, name), getattr(side, name)
        if ours is None or theirs is None or name in OWN or name in main.derived or name in side.derived:
            continue
        if isinstance(ours, float) and isinstance(theirs, float):
            if not abs(ours - theirs) <= join.tolerance and not (ours != ours and theirs != theirs):
                found.append(name)
        elif ours != theirs:
            found.append(name)
    length = main.length
    for name, array in side.tokens.items():
        ours_array = main.tokens.get(name)
        if (ours_array is None and length not in (None, array.shape[0])) or (
            ours_array is not None and not agree(ours_array, array, join.tolerance)
        ):
            found.append(name)
    return found


def agree(a: NDArray[Any], b: NDArray[Any], tolerance: float) -> bool:
    """Whether two arrays record the same; a value that one of them has not is no difference."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    with np.errstate(invalid="ignore"):
        a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
        same = (np.abs(a - b) <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b))
    return bool((same | is_missing(a) | is_missing(b)).all())


def _packed(rollout: Rollout) -> tuple[bytes, bytes]:
    """The row as bytes of our own: JSON for the values, the arrays one after the other behind it."""
    arrays = dict(rollout.tokens)
    if rollout.prompt_ids is not None:
        arrays[PROMPT_FIELD] = rollout.prompt_ids
    values = {name: getattr(rollout, name) for name in (*VALUES, "row", "file", "derived", "extra")}
    shapes = [(name, array.dtype.str, array.shape[0]) for name, array in arrays.items()]
    head = json.dumps([{k: v for k, v in values.items() if v is not None}, shapes], default=str)
    return head.encode(), b"".join(array.tobytes() for array in arrays.values())


def _unpacked(head: bytes, body: bytes) -> Rollout:
    values, shapes = json.loads(head)
    rollout, at = Rollout(**values), 0
    for name, kind, count in shapes:
        array = np.frombuffer(body, np.dtype(kind), count, at)
        at += array.nbytes
        if name == PROMPT_FIELD:
            rollout.prompt_ids = array
        else:
            rollout.tokens[name] = array
    return rollout


def _temporary(settings: Settings) -> IO[bytes]:
    """A file without a name, beside the spool or in the system's folder."""
    folder = settings.spool_dir if settings.spool_dir.is_dir() else None
    return tempfile.TemporaryFile(dir=folder)
