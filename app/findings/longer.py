"""Critic values with one entry too many, among the fields of a row that are kept as they are."""

from typing import Any

import numpy as np
from sqlalchemy import Text, cast, select

from app.findings.view import Floats
from storage.database import AnySession
from storage.models import Rollout
from storage.rollouts import Columns

MOST = 64  # rollouts that are looked at: a column is shifted for all or for none


def longer_values(session: AnySession, batch_id: str, columns: Columns) -> dict[int, Floats]:
    """Place in storage order -> the values, of the first rollouts whose `extra` has such a list."""
    named = cast(Rollout.extra, Text).like("%value%")
    statement = select(Rollout.index, Rollout.length, Rollout.extra).where(
        Rollout.batch_id == batch_id, named
    )
    place = {index: i for i, index in enumerate(columns.index.tolist())}
    found = {}
    for row in session.execute(statement.order_by(Rollout.index).limit(MOST)):
        for name, value in (row.extra or {}).items():
            if "value" in name.lower() and _fits(value, row.length):
                found[place[row.index]] = np.array(value, dtype=np.float64)
    return found


def _fits(value: Any, length: int | None) -> bool:
    return (
        isinstance(value, list)
        and len(value) == (length or 0) + 1
        and all(isinstance(each, int | float) and not isinstance(each, bool) for each in value)
    )
