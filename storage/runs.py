"""Runs: looked up by name, listed with what they hold, and the rows of the run page."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Float, Select, cast, func, select
from sqlalchemy import delete as delete_from

from storage.database import AnySession, WriteSession, insert_new
from storage.ids import new_id
from storage.kept import Kept
from storage.models import Batch, Run
from storage.pages import Page, Sort, paginate

NAME_LENGTH = 255
#: Statistics of so many batches are kept, about 8 KB each; up to `FEW` missing ones are read by their ids.
MOST_KEPT, FEW = 4096, 400
_KEPT: Kept[str, dict[str, Any]] = Kept(MOST_KEPT)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list. Counts are of ready batches; `newest`: when the last one was stored."""

    id: str
    name: str
    created: float
    batches: int
    rollouts: int
    tokens: int
    first_step: int | None
    last_step: int | None
    newest: float


@dataclass(frozen=True, slots=True)
class StepRow:
    """A ready batch in its run. `newest`: none of this step and split is later. `codes`: code -> severity."""

    batch_id: str
    step: int | None
    split: str | None
    newest: bool
    format: str
    rollouts: int
    groups: int
    tokens: int
    created: float
    statistics: dict[str, Any]
    codes: dict[str, Any]


def get_or_create(session: WriteSession, name: str) -> Run:
    """The run of that name. Raises ValueError for a name that cannot be one."""
    name = name.strip()
    if not 0 < len(name) <= NAME_LENGTH or not name.isprintable():
        raise ValueError(f"a run's name has 1 to {NAME_LENGTH} printable characters")
    held = select(Run).where(Run.name == name).with_for_update(read=True, key_share=True)
    while True:
        insert_new(session, Run, {"id": new_id(), "name": name, "created": time.time()}, ["name"])
        # Held, so that no one deletes it as empty before its batch is there.
        found = session.execute(held).scalar_one_or_none()
        if found is not None:
            return found


def find(session: AnySession, id_or_name: str) -> Run | None:
    """The run with that id, else the one with that name."""
    found = session.get(Run, id_or_name)
    return found or session.execute(select(Run).where(Run.name == id_or_name)).scalar_one_or_none()


def page(session: AnySession, limit: int = 50, cursor: str | None = None) -> Page[RunRow]:
    """Runs, the one that got a batch last first."""
    held = _held()
    newest = cast(func.coalesce(held.c.newest, Run.created), Float(53))
    statement: Select[Any] = select(Run, held).outerjoin(held, held.c.run_id == Run.id)
    rows, following = paginate(session, statement, Sort("-newest", newest, Run.id, True), limit, cursor)
    items = [_row(row) for row in rows]
    return Page(items, following, session.execute(select(func.count()).select_from(Run)).scalar_one())


def row(session: AnySession, run_id: str) -> RunRow | None:
    """One run as the list shows it."""
    held = _held(run_id)
    statement: Select[Any] = select(Run, held).outerjoin(held, held.c.run_id == Run.id)
    found = session.execute(statement.where(Run.id == run_id)).first()
    return None if found is None else _row(found)


def splits(session: AnySession, run_id: str) -> list[str | None]:
    """The splits of a run's ready batches, sorted, None first where a batch has none."""
    statement = select(Batch.split).where(Batch.run_id == run_id, Batch.state == "ready").distinct()
    return sorted(session.execute(statement).scalars(), key=lambda split: (split is not None, split or ""))


def _held(run_id: str | None = None) -> Any:
    """What each run (or one) holds in ready batches."""
    where = [Batch.state == "ready"] + ([] if run_id is None else [Batch.run_id == run_id])
    statement = select(
        Batch.run_id,
        func.count().label("batches"),
        func.sum(Batch.rollouts).label("rollouts"),
        func.sum(Batch.tokens).label("tokens"),
        func.min(Batch.step).label("first_step"),
        func.max(Batch.step).label("last_step"),
        func.max(Batch.created).label("newest"),
    )
    return statement.where(*where).group_by(Batch.run_id).subquery()


def _row(row: Any) -> RunRow:
    newest = row.Run.created if row.newest is None else row.newest
    return RunRow(
        row.Run.id, row.Run.name, row.Run.created, row.batches or 0, int(row.rollouts or 0),
        int(row.tokens or 0), row.first_step, row.last_step, newest,
    )  # fmt: skip


def steps(session: AnySession, run_id: str, split: str | None = None) -> list[StepRow]:
    """One row per ready batch, by step, split and age; batches without a step last. `split` narrows."""
    return with_statistics(session, run_id, plain_steps(session, run_id, split))


def plain_steps(session: AnySession, run_id: str, split: str | None = None) -> list[StepRow]:
    """The same rows without their statistics (they are empty), for who needs those of a few only."""
    statement = select(
        Batch.id, Batch.step, Batch.split, Batch.format, Batch.rollouts, Batch.groups, Batch.tokens,
        Batch.created, Batch.codes,
    ).where(Batch.run_id == run_id, Batch.state == "ready")  # fmt: skip
    if split is not None:
        statement = statement.where(Batch.split == split)
    rows = session.execute(
        statement.order_by(Batch.step.nulls_last(), Batch.split, Batch.created, Batch.id)
    ).all()
    last = {(step, split): id for id, step, split, *_ in rows}
    return [
        StepRow(
            id, step, split, step is None or last[step, split] == id, kind, rollouts, groups, tokens, created,
            {}, codes,
        )
        for id, step, split, kind, rollouts, groups, tokens, created, codes in rows
    ]  # fmt: skip


def with_statistics(session: AnySession, run_id: str, rows: Sequence[StepRow]) -> list[StepRow]:
    """Rows of `plain_steps`, with what is known of their rewards, lengths and advantages."""
    statistics = _statistics(session, run_id, [row.batch_id for row in rows])
    return [  # written out: `replace` takes six times as long, for a thousand rows
        StepRow(
            row.batch_id, row.step, row.split, row.newest, row.format, row.rollouts, row.groups, row.tokens,
            row.created, statistics[row.batch_id], row.codes,
        )
        for row in rows
    ]  # fmt: skip


def statistics_before(session: AnySession, run_id: str, split: str | None, step: int) -> list[dict[str, Any]]:
    """Statistics of every earlier step of a split, by step; a step's newest ready batch counts."""
    statement = select(Batch.id, Batch.step).where(
        Batch.run_id == run_id,
        Batch.state == "ready",
        Batch.split.is_not_distinct_from(split),
        Batch.step < step,
    )
    rows = session.execute(statement.order_by(Batch.step, Batch.created, Batch.id))
    newest = {row.step: row.id for row in rows}
    found = _statistics(session, run_id, list(newest.values()))
    return [found[batch_id] for batch_id in newest.values()]


def _statistics(session: AnySession, run_id: str, batch_ids: list[str]) -> dict[str, dict[str, Any]]:
    """The statistics of these ready batches of a run. They never change: what was read lately is kept, since
    reading those of a thousand steps takes most of the time of every page about the run."""
    found = _KEPT.among(batch_ids)
    missing = [batch_id for batch_id in batch_ids if batch_id not in found]
    if not missing:
        return found
    few = Batch.id.in_(missing) if len(missing) <= FEW else Batch.run_id == run_id
    read = session.execute(select(Batch.id, Batch.statistics).where(few, Batch.state == "ready"))
    new = {batch_id: statistics for batch_id, statistics in read if batch_id not in found}
    _KEPT.keep(new)
    return found | new


def version(session: AnySession, run_id: str | None = None) -> str:
    """Another text whenever a ready batch came or went, in one run or in all."""
    held = [Batch.state == "ready"] + ([] if run_id is None else [Batch.run_id == run_id])
    counted = select(func.count(), func.max(Batch.created), func.sum(Batch.rollouts)).where(*held)
    batches, newest, rollouts = session.execute(counted).one()
    return f"{batches}-{rollouts or 0}-{newest or 0.0:.6f}"


def count(session: AnySession) -> int:
    """How many runs there are, empty ones too."""
    return int(session.execute(select(func.count()).select_from(Run)).scalar_one())


def delete_if_empty(session: WriteSession, run_ids: Iterable[str]) -> None:
    """Delete those of the runs in which no batch is left, not even one that is being read in."""
    for run_id in run_ids:
        # Waits for whoever is about to put a batch into it.
        session.execute(select(Run.id).where(Run.id == run_id).with_for_update())
        has_batch = select(Batch.id).where(Batch.run_id == run_id).exists()
        session.execute(delete_from(Run).where(Run.id == run_id, ~has_batch))


def delete_empty(session: WriteSession, before: float) -> None:
    """Delete the runs made before `before` (Unix seconds) in which no batch is."""
    has_batch = select(Batch.id).where(Batch.run_id == Run.id).exists()
    found = session.execute(select(Run.id).where(Run.created < before, ~has_batch)).scalars().all()
    delete_if_empty(session, found)


def delete(session: WriteSession, run_id: str) -> bool:
    """Delete a run with its batches and all that hangs on them. False where there is none."""
    return session.execute(delete_from(Run).where(Run.id == run_id).returning(Run.id)).first() is not None
