"""Rows that repeat an earlier row exactly: a job that was restarted and appended to its file."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
import orjson

from app.ingest.notes import LISTED, listed
from app.ingest.options import Options
from app.ingest.record import Problem, Rollout, Severity

NOT_RECORDED = frozenset(("row", "file", "digest", "derived", "tokens", "prompt_ids"))
_FIELDS = tuple(field.name for field in fields(Rollout) if field.name not in NOT_RECORDED)
_VALUES = attrgetter(*_FIELDS)


def digest(rollout: Rollout) -> str:
    """32 hexadecimal digits over everything that the row recorded, and over nothing else."""
    state = hashlib.sha256()
    values = zip(_FIELDS, _VALUES(rollout), strict=True)
    state.update(_encoded({name: value for name, value in values if value is not None}))
    arrays = (
        rollout.tokens if rollout.prompt_ids is None else rollout.tokens | {"prompt_ids": rollout.prompt_ids}
    )
    for name in sorted(arrays):
        array = arrays[name]
        state.update(f"\0{name}\0{array.dtype.str}\0{array.shape[0]}\0".encode())
        state.update(np.ascontiguousarray(array).view(np.uint8).data)
    return state.hexdigest()[:32]


def _encoded(recorded: dict[str, Any]) -> bytes:
    """The same bytes for the same values. orjson writes NaN as null, so any null is written by `json`
    instead.
    """
    try:
        fast = orjson.dumps(recorded, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, a number past 64 bits, a key that is no text
        fast = b"null"
    return json.dumps(recorded, sort_keys=True, default=str).encode() if b"null" in fast else fast


OUTCOMES: tuple[tuple[str, Severity, str], ...] = (
    (
        "dropped",
        "warning",
        "left out, as they would count twice in group means; upload with duplicates=keep to keep them",
    ),
    (
        "kept",
        "info",
        "kept, as they may be samples that came out alike; upload with duplicates=drop to leave them out",
    ),
)


#: A row and its file, which is None where there is only one.
_Place = tuple[int, str | None]


def _listed(places: list[_Place], count: int) -> str:
    """ "rows 3 and 4", "rows 3 and 4 of a.jsonl", or each with its file where these differ."""
    names = {name for _, name in places}
    name = names.pop() if len(names) == 1 else None
    alike = not names
    rows = [str(row) if alike else f"{row} of {name}" for row, name in places]
    return listed(rows, count, f" of {name}" if name else "")


class Duplicates:
    """Keeps or drops exact repeats, as asked; 16 bytes and a number are kept of each row.

    Unasked, a repeat is dropped only where the row says which sample it is (sample id or index, rollout id):
    two rows of a bare text dump may be two samples that happened to come out alike, and count twice.
    """

    def __init__(self, options: Options) -> None:
        self._asked = options.duplicates
        self._seen: dict[bytes, _Place] = {}
        self._counts = {"dropped": 0, "kept": 0}
        self._rows: dict[str, list[_Place]] = {"dropped": [], "kept": []}
        self._firsts: dict[str, list[_Place]] = {"dropped": [], "kept": []}

    def check(self, rollout: Rollout) -> Problem | None:
        """Sets the digest; the problem that says a repeat was dropped, or None where the row stays."""
        rollout.digest = digest(rollout)
        key = bytes.fromhex(rollout.digest)
        first = self._seen.setdefault(key, (rollout.row, rollout.file))
        if first == (rollout.row, rollout.file):
            return None
        drop = self._asked == "drop" or (self._asked is None and identified(rollout))
        self._count("dropped" if drop else "kept", (rollout.row, rollout.file), first)
        if not drop:
            return None
        where = f"row {first[0]}" if first[1] == rollout.file else f"row {first[0]} of {first[1]}"
        message = f"row {rollout.row}: repeats {where} exactly; left out"
        return Problem(message, "duplicate_row", "warning", rollout.row, None)

    def _count(self, what: str, row: _Place, first: _Place) -> None:
        self._counts[what] += 1
        if len(self._rows[what]) < LISTED:
            self._rows[what].append(row)
            self._firsts[what].append(first)

    def summary(self) -> Iterator[Problem]:
        """How many exact repeats there were, and how to have it the other way."""
        for what, severity, then in OUTCOMES:
            count = self._counts[what]
            if count:
                rows = "row" if count == 1 else "rows"
                repeat = "repeats" if count == 1 else "repeat"
                where = f"{_listed(self._rows[what], count)} {repeat} {_listed(self._firsts[what], count)}"
                message = f"{count} exact duplicate {rows} ({where}): {then}"
                yield Problem(message, "duplicate_rows", severity, None, None)


def identified(rollout: Rollout) -> bool:
    """Whether the row itself says which sample it is."""
    own = (rollout.sample_id, rollout.sample_index, rollout.rollout_id, rollout.extra.get("request_id"))
    return any(value is not None for value in own)
