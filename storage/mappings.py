"""Which column of a table is what, remembered by the set of its columns."""

import time
from typing import Any

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, update

from storage.database import AnySession, WriteSession, insert_new
from storage.models import ColumnMapping
from storage.pages import Page, Sort, paginate

#: So many shapes are remembered; the one that was not used for longest goes first.
MOST = 1000


def put(session: WriteSession, shape: str, seen: list[str], **columns: Any) -> None:
    """Remember `mapping`, `decimal` and `group_by` for tables of this shape, in place of what was there."""
    now = time.time()
    row = {"shape": shape, "seen": seen, "created": now, "updated": now, **columns}
    if not insert_new(session, ColumnMapping, row, ["shape"]):
        statement = update(ColumnMapping).where(ColumnMapping.shape == shape)
        session.execute(statement.values(updated=now, **columns))
    old = select(ColumnMapping.shape).order_by(ColumnMapping.updated.desc()).offset(MOST).limit(100)
    for gone in list(session.execute(old).scalars()):
        delete(session, gone)


def get(session: AnySession, shape: str) -> ColumnMapping | None:
    return session.get(ColumnMapping, shape)


def every(session: AnySession) -> dict[str, ColumnMapping]:
    """Shape -> mapping, all of them."""
    return {row.shape: row for row in session.execute(select(ColumnMapping)).scalars()}


def page(session: AnySession, limit: int = 50, cursor: str | None = None) -> Page[ColumnMapping]:
    """Mappings, newest first."""
    sort = Sort("-updated", ColumnMapping.updated, ColumnMapping.shape, True)
    rows, following = paginate(session, select(ColumnMapping), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(ColumnMapping)).scalar_one()
    return Page([row.ColumnMapping for row in rows], following, total)


def delete(session: WriteSession, shape: str) -> bool:
    """Forget the mapping. False where there was none."""
    statement = delete_from(ColumnMapping).where(ColumnMapping.shape == shape)
    return session.execute(statement.returning(ColumnMapping.shape)).first() is not None
