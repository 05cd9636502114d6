"""Rollouts: one, a group's, a filtered page, or the light columns of a whole batch as numpy arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Text, and_, func, or_, select, type_coerce

from storage import packed
from storage.database import BINARY, AnySession
from storage.models import Batch, EstimateRollout, PackedBatch, Prompt, Rollout
from storage.pages import Expression, Page, paginate, sort_from
from storage.types import json_value, verbatim

NUMBERS = ("reward", "advantage", "reward_baseline", "bootstrap_value")  # float64, NaN where null
INTEGERS = ("index", "group_no", "part", "slot", "row")
OPTIONAL = ("length", "valid", "rank", "sample_index", "policy_version", "segment", "micro_batch")
OBJECTS = (
    "data_source",
    "reward_nonfinite",
    "digest",
    "finish_reason",
    "truncated",
    "terminated",
    "rollout_id",
)
DECODED = {
    "data_source": verbatim,
    "finish_reason": verbatim,
    "rollout_id": verbatim,
    "reward_components": json_value,
}
LONGEST_SEARCH = 1000  # characters
LARGEST = 2**63  # integers of the database end here
READ = (*INTEGERS, *OPTIONAL, *NUMBERS, *OBJECTS, "reward_components")


@dataclass(frozen=True, slots=True)
class Columns:
    """The light columns of all rollouts of a batch, each `[B]`, in storage order (group_no, part, slot).

    Integers are int64; of `length`, `valid`, `rank`, `sample_index`, `policy_version`, `segment` and
    `micro_batch`, -1 means not recorded (`known` tells a recorded -1 apart). Floats are float64, NaN where
    not recorded; a non-finite reward is NaN with its name in `reward_nonfinite`. Objects: str, bool or None.
    `components`: reward function -> float64, NaN where the rollout has none.
    """

    index: NDArray[np.int64]
    group_no: NDArray[np.int64]
    part: NDArray[np.int64]
    slot: NDArray[np.int64]
    row: NDArray[np.int64]
    length: NDArray[np.int64]
    valid: NDArray[np.int64]
    rank: NDArray[np.int64]
    sample_index: NDArray[np.int64]
    policy_version: NDArray[np.int64]
    segment: NDArray[np.int64]
    micro_batch: NDArray[np.int64]
    reward: NDArray[np.float64]
    advantage: NDArray[np.float64]
    reward_baseline: NDArray[np.float64]
    bootstrap_value: NDArray[np.float64]
    data_source: NDArray[np.object_]
    reward_nonfinite: NDArray[np.object_]
    digest: NDArray[np.object_]
    finish_reason: NDArray[np.object_]
    truncated: NDArray[np.object_]
    terminated: NDArray[np.object_]
    rollout_id: NDArray[np.object_]
    components: dict[str, NDArray[np.float64]]
    known: dict[str, NDArray[np.bool_]]

    @property
    def rollouts(self) -> int:
        return int(self.index.shape[0])


#: Names of all columns, and of those that are several by name.
NAMES = tuple(column.name for column in fields(Columns))
NAMED = ("components", "known")


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list of rollouts is narrowed to; None does not narrow. Reward bounds are inclusive."""

    group_id: str | None = None
    group_no: int | None = None
    data_source: str | None = None
    finish_reason: str | None = None
    reward_min: float | None = None
    reward_max: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout in a list. `advantage` is the chosen estimate's mean, else the recorded number."""

    index: int
    row: int
    group_no: int
    group_id: str
    data_source: str | None
    reward: float | None
    reward_nonfinite: str | None
    length: int | None
    valid: int | None
    finish_reason: str | None
    advantage: float | None


def get(session: AnySession, batch_id: str, index: int) -> Rollout | None:
    """The rollout of that index; any number may be asked for."""
    return session.get(Rollout, (batch_id, index)) if 0 <= index < LARGEST else None


def indices_of_group(session: AnySession, batch_id: str, group_no: int) -> list[int]:
    """The indices of a group's rollouts, ascending."""
    statement = select(Rollout.index).where(Rollout.batch_id == batch_id, Rollout.group_no == group_no)
    return list(session.execute(statement.order_by(Rollout.index)).scalars())


def of_group(
    session: AnySession, batch_id: str, group_no: int, indices: Sequence[int] | None = None
) -> list[Rollout]:
    """The rollouts of a group, whole, in storage order; of a run of its `indices` only those."""
    statement = select(Rollout).where(Rollout.batch_id == batch_id, Rollout.group_no == group_no)
    if indices:
        statement = statement.where(Rollout.index.between(indices[0], indices[-1]))
    return list(session.execute(statement.order_by(Rollout.part, Rollout.slot)).scalars())


def columns(session: AnySession, batch_id: str) -> Columns:
    """The light columns of the whole batch, ready or not."""
    data = session.execute(
        select(PackedBatch.data).where(PackedBatch.batch_id == batch_id), execution_options=BINARY
    ).scalar_one_or_none()
    found = unpacked(data)
    return read_columns(session, batch_id) if found is None else found


def pack(columns: Columns) -> bytes:
    """The columns as `PackedBatch` keeps them."""
    return packed.pack(flat(columns))


def flat(columns: Columns) -> dict[str, NDArray[Any]]:
    """The columns by name; those that are several by name as `name:key`."""
    found: dict[str, NDArray[Any]] = {}
    for name in NAMES:
        value = getattr(columns, name)
        found |= {f"{name}:{key}": each for key, each in value.items()} if name in NAMED else {name: value}
    return found


def unpacked(data: bytes | None) -> Columns | None:
    """The columns that `pack` made bytes of; None where they were packed for other columns than these."""
    found = packed.kept(data)
    if found is None or {name.partition(":")[0] for name in found} | set(NAMED) != set(NAMES):
        return None
    of: dict[str, Any] = {name: value for name, value in found.items() if ":" not in name}
    for name in NAMED:
        of[name] = {key[len(name) + 1 :]: value for key, value in found.items() if key.startswith(f"{name}:")}
    return Columns(**of)


def read_columns(session: AnySession, batch_id: str) -> Columns:
    """The light columns from the batch's rows."""
    table = Rollout.__table__.c
    # Plain columns of plain types: the ORM, and decoding text and JSON value by value, cost as much again.
    raw_columns = [type_coerce(table[name], Text) if name in DECODED else table[name] for name in READ]
    statement = select(*raw_columns).where(table.batch_id == batch_id)
    statement = statement.order_by(table.group_no, table.part, table.slot)
    rows = session.execute(statement, execution_options=BINARY).all()
    raw: dict[str, Sequence[Any]] = dict(zip(READ, zip(*rows, strict=True), strict=True)) if rows else {}
    by_name = {name: raw.get(name, ()) for name in READ}
    for name, decode in DECODED.items():
        meaning = {text: decode(text) for text in set(by_name[name])}
        by_name[name] = [meaning[text] for text in by_name[name]]
    made: dict[str, Any] = {
        "components": _components(by_name["reward_components"]),
        "known": {name: np.array([v is not None for v in by_name[name]], np.bool_) for name in OPTIONAL},
    }
    made |= {name: np.array(by_name[name], np.int64) for name in INTEGERS}
    made |= {name: np.array([-1 if v is None else v for v in by_name[name]], np.int64) for name in OPTIONAL}
    made |= {name: np.array(by_name[name], np.float64) for name in NUMBERS}  # None becomes NaN
    made |= {name: _objects(by_name[name]) for name in OBJECTS}
    return Columns(**made)


def text_lengths(session: AnySession, batch_id: str) -> NDArray[np.int64]:
    """Characters of every response's text, `[B]` in storage order; -1 where no text is recorded."""
    statement = select(func.length(Rollout.response)).where(Rollout.batch_id == batch_id)
    found = session.execute(statement.order_by(Rollout.group_no, Rollout.part, Rollout.slot)).scalars()
    return np.array([-1 if length is None else length for length in found], dtype=np.int64)


def page(
    session: AnySession,
    batch_id: str,
    estimate_id: str | None = None,
    sort: str = "index",
    filter: Filter | None = None,
    q: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[RolloutRow]:
    """Rollouts by `index`, `reward`, `length`, `advantage` (the estimate's, if one is named) or `group`.

    `q` finds text in the response or the prompt, upper and lower case alike for ASCII letters.
    """
    advantage = Rollout.advantage if estimate_id is None else EstimateRollout.advantage
    keys: dict[str, Expression] = {
        "index": Rollout.index, "reward": Rollout.reward, "length": Rollout.length, "advantage": advantage,
        "group": Rollout.group_no,
    }  # fmt: skip
    where = _where(batch_id, filter or Filter())
    if q:
        if len(q) > LONGEST_SEARCH:
            raise ValueError(
                f"the text to search for has {len(q)} characters; at most {LONGEST_SEARCH} can be"
            )
        where.append(_find(session, batch_id, q))
    listed: list[Any] = [
        Rollout.index, Rollout.row, Rollout.group_no, Prompt.group_id, Rollout.data_source, Rollout.reward,
        Rollout.reward_nonfinite, Rollout.length, Rollout.valid, Rollout.finish_reason,
        advantage.label("advantage"),
    ]  # fmt: skip
    statement = select(*listed).join(Prompt, _same_group()).where(*where)
    if estimate_id is not None:
        same = and_(EstimateRollout.estimate_id == estimate_id, EstimateRollout.index == Rollout.index)
        statement = statement.outerjoin(EstimateRollout, same)
    chosen = sort_from(sort, keys, Rollout.index)
    rows, following = paginate(session, statement, chosen, limit, cursor)
    items = [RolloutRow(*tuple(row)[:-2]) for row in rows]
    return Page(items, following, _total(session, batch_id, where))


def _same_group() -> ColumnElement[bool]:
    return and_(Prompt.batch_id == Rollout.batch_id, Prompt.group_no == Rollout.group_no)


def _where(batch_id: str, chosen: Filter) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = [Rollout.batch_id == batch_id]
    if chosen.group_id is not None:
        where.append(_in_groups(batch_id, Prompt.group_id == chosen.group_id))
    if chosen.group_no is not None:
        where.append(Rollout.group_no == chosen.group_no)
    if chosen.data_source is not None:
        where.append(Rollout.data_source == chosen.data_source)
    if chosen.finish_reason is not None:
        where.append(Rollout.finish_reason == chosen.finish_reason)
    if chosen.reward_min is not None:
        where.append(Rollout.reward >= chosen.reward_min)
    if chosen.reward_max is not None:
        where.append(Rollout.reward <= chosen.reward_max)
    return where


def _find(session: AnySession, batch_id: str, q: str) -> ColumnElement[bool]:
    def has(text: Expression) -> ColumnElement[bool]:
        # SQLite's LIKE ignores the case of ASCII letters by itself.
        contains = text.contains if session.get_bind().dialect.name == "sqlite" else text.icontains
        return contains(q, autoescape=True)

    return or_(has(Rollout.response), has(Rollout.prompt), _in_groups(batch_id, has(Prompt.prompt)))


def _in_groups(batch_id: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    # A query of its own: a group's prompt is looked at once, not once for each of its rollouts.
    return Rollout.group_no.in_(select(Prompt.group_no).where(Prompt.batch_id == batch_id, condition))


def _total(session: AnySession, batch_id: str, where: list[ColumnElement[bool]]) -> int:
    if len(where) == 1:
        known = session.execute(select(Batch.rollouts).where(Batch.id == batch_id)).scalar_one_or_none()
        return known or 0
    statement = select(func.count()).select_from(Rollout).where(*where)
    return session.execute(statement).scalar_one()


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), np.object_)
    array[:] = values
    return array


def _components(values: Sequence[dict[str, float | None] | None]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for value in values if value for name in value)  # in order of appearance
    return {
        name: np.array([None if value is None else value.get(name) for value in values], np.float64)
        for name in names
    }
