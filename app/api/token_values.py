"""Advantages per token of an estimate, whether it is stored per token or as one number per rollout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators import ESTIMATORS, ScoreParams
from storage import arrays, batches, estimates, rollouts
from storage.database import AnySession
from storage.models import Estimate, EstimateRollout, Rollout
from storage.rollouts import Columns

MASK = "response_mask"
#: Stored names; where an estimate is one number per rollout, the first two are columns instead.
FIELDS = ("advantages", "advantages_raw", "returns")
COLUMNS = {"advantages": "advantage", "advantages_raw": "advantage_raw"}

Array = NDArray[Any]
Values = dict[str, Array | None]


def of_rollout(session: AnySession, estimate: Estimate, rollout: Rollout) -> Values:
    """`response_mask` and each of FIELDS, one value per token; None where there is none.

    A rollout without tokens stands as one token and has no mask.
    """
    stored = {name: stored_field(estimate, name) for name in FIELDS} if estimate.per_token else {}
    found = arrays.rollout_arrays(session, rollout, [MASK, *stored.values()])
    mask = mask_of(found.get(MASK), rollout.length)
    values: Values = {name: as_array(found.get(field)) for name, field in stored.items()}
    if values.get("advantages") is None:
        row = session.get(EstimateRollout, (estimate.id, rollout.index))
        numbers = {name: getattr(row, column, None) for name, column in columns_of(estimate).items()}
        values = {"returns": None} | {name: spread(number, mask) for name, number in numbers.items()}
    return {MASK: mask, **values}


def compares(estimate: Estimate) -> bool:
    """Whether it compares scores of rollouts: there is no critic, and what is whitened is its `returns`."""
    return issubclass(ESTIMATORS[estimate.estimator].params, ScoreParams)


def columns_of(estimate: Estimate) -> dict[str, str]:
    """The columns that hold a field where the estimate is one number per rollout."""
    return COLUMNS | ({"returns": COLUMNS["advantages_raw"]} if compares(estimate) else {})


def stored_field(estimate: Estimate, name: str) -> str:
    """The array that holds a field per token."""
    same = name == "returns" and compares(estimate)
    return estimates.field("advantages_raw" if same else name, estimate.id)


def as_array(value: Any) -> Array | None:
    return value if isinstance(value, np.ndarray) else None


def mask_of(recorded: Any, length: int | None) -> Array | None:
    """The mask as recorded; without one every token counts; None where no tokens are known."""
    if isinstance(recorded, np.ndarray):
        return recorded
    return None if length is None or length < 0 else np.ones(length, np.uint8)


def spread(number: float | None, mask: Array | None) -> Array:
    """One number on every unmasked token, 0 on the others. Null is what was not computable: NaN."""
    value = np.nan if number is None else float(number)
    return np.array([value]) if mask is None else np.where(mask > 0, value, 0.0)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rollouts of one part of a group, in storage order; each list has one entry per rollout."""

    index: list[int]
    group_id: list[str]
    values: list[Values]


def pieces(session: AnySession, estimate: Estimate, wanted: Sequence[str] = FIELDS) -> Iterator[Piece]:
    """The whole batch, one part at a time in memory, with the mask and the `wanted` fields."""
    columns = rollouts.columns(session, estimate.batch_id)
    names = dict(group_names(session, estimate.batch_id))
    stored = {stored_field(estimate, name) for name in wanted if estimate.per_token}
    fields = [MASK, *sorted(stored)]
    streams = {field: Lockstep(arrays.iterate(session, estimate.batch_id, field)) for field in fields}
    numbers = {
        name: by_place(session, estimate, columns, column)
        for name, column in columns_of(estimate).items()
        if name in wanted
    }
    for group_no, part, start, end in parts(columns):
        found = {field: stream.of(group_no, part, end - start) for field, stream in streams.items()}
        values = []
        for place in range(start, end):
            length = int(columns.length[place]) if columns.known["length"][place] else None
            own = {field: slots[place - start] for field, slots in found.items()}
            one = {name: float(column[place]) for name, column in numbers.items()}
            values.append(of_place(estimate, mask_of(own[MASK], length), one, own, wanted))
        yield Piece(columns.index[start:end].tolist(), [names[group_no]] * (end - start), values)


def of_place(
    estimate: Estimate,
    mask: Array | None,
    numbers: dict[str, float],
    found: dict[str, Array | None],
    wanted: Sequence[str],
) -> Values:
    """Values of one rollout: as stored, else its one number on every token."""
    values: Values = {MASK: mask}
    for name in wanted:
        stored = found.get(stored_field(estimate, name))
        values[name] = spread(numbers[name], mask) if stored is None and name in numbers else stored
    return values


def length_of(values: Values) -> int:
    """Tokens of the rollout; without any it stands as one."""
    mask = values[MASK]
    return 1 if mask is None else len(mask)


class Lockstep:
    """Reads a field's parts along with those of the others; a part without the field has None everywhere."""

    def __init__(self, source: Iterator[tuple[int, int, list[Array | None]]]) -> None:
        self.source = source
        self.head = next(source, None)

    def of(self, group_no: int, part: int, size: int) -> list[Array | None]:
        if self.head is None or self.head[:2] != (group_no, part):
            return [None] * size
        values = self.head[2]
        self.head = next(self.source, None)
        return values


def parts(columns: Columns) -> Iterator[tuple[int, int, int, int]]:
    """(group_no, part, start, end) in storage order."""
    places = np.stack([columns.group_no, columns.part], axis=1)
    starts = (
        [0, *(np.flatnonzero(np.any(places[1:] != places[:-1], axis=1)) + 1).tolist()] if len(places) else []
    )
    for start, end in zip(starts, [*starts[1:], columns.rollouts], strict=True):
        yield int(places[start, 0]), int(places[start, 1]), start, end


def by_place(session: AnySession, estimate: Estimate, columns: Columns, name: str) -> Array:
    """A column of the estimate in storage order, NaN where it has nothing."""
    stored = estimates.columns(session, estimate.id)
    values = np.full(columns.rollouts, np.nan)
    known = dict(zip(stored["index"].tolist(), stored[name].tolist(), strict=True))
    for place, index in enumerate(columns.index.tolist()):
        values[place] = known.get(index, np.nan)
    return values


def group_names(session: AnySession, batch_id: str) -> Iterator[tuple[int, str]]:
    cursor: str | None = None
    while True:
        page = batches.groups(session, batch_id, "group_no", 1000, cursor)
        yield from ((row.group_no, row.group_id) for row in page.items)
        cursor = page.next
        if cursor is None:
            return
