"""The responses of one group beside each other: a lane each on one token axis, and their mean advantages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app import drawing
from app.drawing import Lane
from app.figures.chosen import Chosen
from app.figures.members import by_place
from app.pages.reading import fitting
from storage.database import ReadSession
from storage.models import Rollout

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
