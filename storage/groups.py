"""Prompt groups: the statistics of their rewards, and their list."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Select, func, select, update

from storage.database import AnySession, WriteSession
from storage.models import EstimateRollout, Prompt, Rollout
from storage.pages import Page, paginate, sort_from

LARGEST = 2**63  # integers of the database end here
EXCERPT = 300  # characters of the prompt that a list shows


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A prompt group in a list. `total_abs` is Σ|A| of its rollouts under the estimate asked for."""

    group_no: int
    group_id: str
    data_source: str | None
    size: int
    scored: int
    reward_mean: float | None
    reward_std: float | None
    reward_min: float | None
    reward_max: float | None
    total_abs: float | None
    excerpt: str | None


def statistics(rewards: Sequence[float | None]) -> dict[str, int | float | None]:
    """`size`, `scored`, `reward_mean`, `reward_std` (ddof 1), `reward_min`, `reward_max` of one group.

    Scored are the finite rewards; None marks the others. Equal rewards have a spread of exactly 0.
    """
    scored = np.array([reward for reward in rewards if reward is not None], np.float64)
    found: dict[str, int | float | None] = dict.fromkeys(
        ("reward_mean", "reward_std", "reward_min", "reward_max")
    )
    if scored.size:
        low, high = float(scored.min()), float(scored.max())
        # Dividing first keeps sums and squares of the largest and smallest floats in range; a power of two
        # changes no digit.
        unit = math.ldexp(1.0, math.frexp(max(abs(low), abs(high)))[1] - 1)
        mean, std = low, 0.0 if scored.size > 1 else None
        if low != high:
            parts = scored / unit
            middle = np.add.reduce(parts) / parts.size  # what .mean() and .std() do, in a third of the time
            off = parts - middle
            std = float(np.sqrt(np.add.reduce(off * off) / (parts.size - 1)) * unit)
            mean = float(middle * unit)
        found.update(reward_mean=mean, reward_std=std, reward_min=low, reward_max=high)
    return {"size": len(rewards), "scored": int(scored.size), **found}


def recount(session: WriteSession, batch_id: str) -> None:
    """Set the statistics of the groups that came in several parts (the others have theirs already)."""
    split = select(Rollout.group_no).where(Rollout.batch_id == batch_id, Rollout.part > 0).distinct()
    for group_no in list(session.execute(split).scalars()):
        rewards = session.execute(
            select(Rollout.reward).where(Rollout.batch_id == batch_id, Rollout.group_no == group_no)
        ).scalars()
        session.execute(
            update(Prompt)
            .where(Prompt.batch_id == batch_id, Prompt.group_no == group_no)
            .values(**statistics(list(rewards)))
        )


def page(
    session: AnySession,
    batch_id: str,
    sort: str = "group_no",
    limit: int = 50,
    cursor: str | None = None,
    estimate_id: str | None = None,
) -> Page[GroupRow]:
    """Groups by `group_no`, `reward_mean`, `reward_std`, `size` or (of an estimate) `total_abs`."""
    total_abs = _total_abs(batch_id, estimate_id)
    keys: dict[str, Any] = {
        "group_no": Prompt.group_no, "reward_mean": Prompt.reward_mean, "reward_std": Prompt.reward_std,
        "size": Prompt.size,
    }  # fmt: skip
    statement: Select[Any] = select(
        Prompt.group_no, Prompt.group_id, Prompt.data_source, Prompt.size, Prompt.scored, Prompt.reward_mean,
        Prompt.reward_std, Prompt.reward_min, Prompt.reward_max,
        func.substr(Prompt.prompt, 1, EXCERPT, type_=Prompt.prompt.type).label("excerpt"),
    ).where(Prompt.batch_id == batch_id)  # fmt: skip
    if total_abs is not None:
        keys["total_abs"] = total_abs.c.total_abs
        statement = statement.add_columns(total_abs.c.total_abs)
        statement = statement.outerjoin(total_abs, total_abs.c.group_no == Prompt.group_no)
    rows, following = paginate(session, statement, sort_from(sort, keys, Prompt.group_no), limit, cursor)
    items = [
        GroupRow(
            row.group_no, row.group_id, row.data_source, row.size, row.scored, row.reward_mean,
            row.reward_std, row.reward_min, row.reward_max,
            None if total_abs is None else row.total_abs, row.excerpt,
        )
        for row in rows
    ]  # fmt: skip
    count = select(func.count()).select_from(Prompt).where(Prompt.batch_id == batch_id)
    return Page(items, following, session.execute(count).scalar_one())


def get(session: AnySession, batch_id: str, key: int | str) -> Prompt | None:
    """A group by its number (int) or its id (str)."""
    if isinstance(key, int):
        return session.get(Prompt, (batch_id, key)) if 0 <= key < LARGEST else None
    statement = select(Prompt).where(Prompt.batch_id == batch_id, Prompt.group_id == key)
    return session.execute(statement.order_by(Prompt.group_no).limit(1)).scalar_one_or_none()


def _total_abs(batch_id: str, estimate_id: str | None) -> Any:
    if estimate_id is None:
        return None
    return (
        select(Rollout.group_no, func.sum(EstimateRollout.total_abs).label("total_abs"))
        .join(EstimateRollout, EstimateRollout.index == Rollout.index)
        .where(Rollout.batch_id == batch_id, EstimateRollout.estimate_id == estimate_id)
        .group_by(Rollout.group_no)
        .subquery()
    )
