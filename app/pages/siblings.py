"""The responses of one group beside each other: a lane each on one token axis, and their mean advantages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app import drawing
from app.drawing import Lane
from app.figures.chosen import Chosen
from app.pages.reading import fitting
from storage import arrays
from storage.database import ReadSession
from storage.models import EstimateRollout, Rollout

LANE_WIDTH = 480
#: So many responses of a group are shown at once: pages stay small and quick for groups of thousands.
MOST_SHOWN = 256


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One response of the group: its numbers, and its lane on the token axis of the longest."""

    index: int
    reward: float | None
    advantage: float | None
    length: int | None
    current: bool
    lane: Lane


def near(indices: Sequence[int], place: int) -> Sequence[int]:
    """The indices shown together with the one at `place`: all, or `MOST_SHOWN` around it."""
    first = max(0, min(place - MOST_SHOWN // 2, len(indices) - MOST_SHOWN))
    return indices[first : first + MOST_SHOWN]


def lanes(
    session: ReadSession,
    members: Sequence[Rollout],
    chosen: Chosen,
    means: Mapping[int, float],
    clip: float,
    current: int,
) -> tuple[LaneLine, ...]:
    """A lane per sibling, in the order of the file, on one token axis."""
    if not members:
        return ()
    batch_id, group_no = members[0].batch_id, members[0].group_no
    values = {} if chosen.field is None else by_place(session, batch_id, chosen.field, group_no)
    masks = by_place(session, batch_id, "response_mask", group_no)
    sizes = {member.index: size_of(member, lane_unit(members)) for member in members}
    longest = max(sizes.values(), default=0)
    lines = []
    for member in sorted(members, key=lambda each: each.index):
        place, length = (member.part, member.slot), sizes[member.index]
        own = values.get(place) if chosen.field is not None else means.get(member.index)
        mask = masks.get(place)
        fits = not isinstance(own, np.ndarray) or own.size == length
        lane = drawing.lane(own if fits else None, fitting(mask, length), length, longest, clip, LANE_WIDTH)
        mean, index = means.get(member.index), member.index
        lines.append(LaneLine(index, member.reward, mean, member.length, index == current, lane))
    return tuple(lines)


def lane_unit(members: Sequence[Rollout]) -> str:
    """What lanes are as long as: tokens, or characters where no tokens are recorded."""
    return "tokens" if any(member.length is not None for member in members) else "characters"


def size_of(member: Rollout, unit: str) -> int:
    return (member.length or 0) if unit == "tokens" else len(member.response or "")


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
