"""Checks of a batch that could not be done: its rows stand, and what was not looked at is known."""

from collections.abc import Collection, Mapping

from sqlalchemy import delete, func, select

from storage.database import AnySession, WriteSession, upsert
from storage.models import Batch
from storage.service_models import Unchecked

#: Batches that are asked for at once: a statement takes only so many values.
AT_ONCE = 500


def record(session: WriteSession, batch_id: str, failed: Mapping[str, str]) -> None:
    """Remember that these checks (code -> title) could not be done on the batch; nothing where it is gone."""
    if failed and session.get(Batch, batch_id) is not None:
        rows = [{"batch_id": batch_id, "check": code, "title": title} for code, title in failed.items()]
        upsert(session, Unchecked, rows)


def forget(session: WriteSession, batch_id: str, checks: Collection[str]) -> None:
    """These checks were done after all."""
    where = (Unchecked.batch_id == batch_id, Unchecked.check.in_(checks))
    session.execute(delete(Unchecked).where(*where))


def of_batch(session: AnySession, batch_id: str) -> dict[str, str]:
    """Code -> title of the checks that could not be done on the batch, by code."""
    return of_batches(session, [batch_id]).get(batch_id, {})


def of_batches(session: AnySession, batch_ids: Collection[str]) -> dict[str, dict[str, str]]:
    """The same for several; batches on which everything was checked are not there."""
    found: dict[str, dict[str, str]] = {}
    ids = list(batch_ids)
    for start in range(0, len(ids), AT_ONCE):
        statement = select(Unchecked).where(Unchecked.batch_id.in_(ids[start : start + AT_ONCE]))
        for row in session.scalars(statement.order_by(Unchecked.batch_id, Unchecked.check)):
            found.setdefault(row.batch_id, {})[row.check] = row.title
    return found


def counts(session: AnySession) -> dict[str, int]:
    """How many batches lack each check, by its code."""
    statement = select(Unchecked.check, func.count()).group_by(Unchecked.check).order_by(Unchecked.check)
    return {check: count for check, count in session.execute(statement)}
