"""The rollouts of one group: their mean advantages, and what a token field has for each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app.figures.chosen import Chosen
from storage import arrays
from storage.database import ReadSession
from storage.models import EstimateRollout, Rollout


def group_means(session: ReadSession, members: Sequence[Rollout], chosen: Chosen) -> dict[int, float]:
    """Mean advantage over the unmasked tokens of each member that has one, by index."""
    if chosen.why is not None or not members:
        return {}
    if chosen.estimate is not None:
        wanted = [member.index for member in members]
        statement = select(EstimateRollout.index, EstimateRollout.advantage).where(
            EstimateRollout.estimate_id == chosen.estimate.id, EstimateRollout.index.in_(wanted)
        )
        return {index: value for index, value in session.execute(statement) if value is not None}
    if chosen.field is None:
        return {member.index: member.advantage for member in members if member.advantage is not None}
    batch_id, group_no = members[0].batch_id, members[0].group_no
    values = by_place(session, batch_id, chosen.field, group_no)
    masks = by_place(session, batch_id, "response_mask", group_no)
    means: dict[int, float] = {}
    for member in members:
        own, mask = values.get((member.part, member.slot)), masks.get((member.part, member.slot))
        if own is not None:
            fits = mask is not None and mask.size == own.size
            kept = own[(mask > 0) & np.isfinite(own)] if fits and mask is not None else own[np.isfinite(own)]
            means |= {member.index: float(kept.mean())} if kept.size else {}
    return means


def by_place(
    session: ReadSession, batch_id: str, field: str, group_no: int
) -> dict[tuple[int, int], NDArray[Any]]:
    """(part, slot) -> the field's values, for the rollouts of a group that have it."""
    return {
        (part, slot): values
        for _, part, slots in arrays.iterate(session, batch_id, field, group_no)
        for slot, values in enumerate(slots)
        if values is not None
    }
