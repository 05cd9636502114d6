"""`/batches/{id}/groups/{group_no}`: which sibling wins, by how much, and with which tokens?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.deps import Reader
from app.errors import NotFound
from app.figures import chosen as choosing
from app.figures.members import group_means
from app.pages.advantages import Picker, pick, step_clip
from app.pages.batch import find_batch, name_of, way_to
from app.pages.cells import Cell
from app.pages.findings import Named, naming
from app.pages.page import Page
from app.pages.reading import WINDOW, Missing, Shown, TrackLine, missing_of, read, shown, track_lines
from app.pages.siblings import LaneLine, lane_unit, lanes, near
from app.pages.wall import Wall, wall
from app.templating import Crumb
from storage import batches, rollouts
from storage.database import ReadSession
from storage.models import Batch, Prompt, Rollout, Run

#: How the responses are shown: one with its tracks, or all side by side.
VIEWS = (("one", "one response"), ("side", "side by side"))
MOST_SIDE = 16


@dataclass(frozen=True, slots=True)
class Member:
    """One rollout of the group in its table. `z` is (reward − mean) / std of the group, ddof 1."""

    index: int
    reward: float | None
    nonfinite: str | None
    z: float | None
    advantage: float | None
    length: int | None
    valid: int | None
    finish_reason: str | None
    truncated: bool | None
    components: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One response where siblings stand side by side."""

    index: int
    reward: float | None
    advantage: float | None
    length: int | None
    shown: Shown


@dataclass(frozen=True, slots=True)
class GroupPage:
    """`group` is the cell of the wall; `before`, `after` those beside it; `current` the response shown."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    group: Cell
    wall: Wall
    before: int | None
    after: int | None
    picker: Picker
    findings: tuple[Named, ...]
    prompt: str | None
    messages: list[Any] | None
    members: tuple[Member, ...]
    components: tuple[str, ...]
    lanes: tuple[LaneLine, ...]
    lane_unit: str
    current: int
    previous: int | None
    next: int | None
    view: str
    views: tuple[tuple[str, str], ...]
    tracks: tuple[TrackLine, ...]
    missing: tuple[Missing, ...]
    shown: Shown | None
    columns: tuple[Column, ...]
    window: int


def build(
    session: Reader,
    batch_id: str,
    group_no: int,
    estimate: str | None = None,
    rollout: int | None = None,
    sort: str | None = None,
    view: str | None = None,
    color: str | None = None,
) -> GroupPage:
    batch = find_batch(session, batch_id)
    prompt = batches.group(session, batch.id, group_no)
    indices = rollouts.indices_of_group(session, batch.id, group_no)
    if prompt is None or not indices:
        raise NotFound(
            f"The batch has no group {group_no}; its page lists the {batch.groups} that there are."
        )
    position = indices.index(rollout) if rollout in indices else 0
    members = rollouts.of_group(session, batch.id, group_no, near(indices, position))
    members.sort(key=lambda member: member.index)
    picker, chosen = pick(session, batch, estimate, per_token=True)
    found = wall(session, batch, chosen, sort, around=group_no)
    place = next(i for i, cell in enumerate(found.cells) if cell.group_no == group_no)
    means, clip = group_means(session, members, chosen), step_clip(session, batch, chosen)
    current = next(member for member in members if member.index == indices[position])
    before, after = around([cell.group_no for cell in found.cells], place)
    previous, following = around(indices, position)
    side = view == "side"
    reading = None if side else read(session, current, chosen)
    mean = means.get(current.index)
    return GroupPage(
        title=f"Group {prompt.group_id}",
        crumbs=(
            *way_to(session.get_one(Run, batch.run_id)),
            Crumb(name_of(batch), f"/batches/{batch.id}"),
            Crumb(f"group {prompt.group_id}"),
        ),
        batch_id=batch.id,
        group=found.cells[place],
        wall=found,
        before=before,
        after=after,
        picker=picker,
        findings=naming(batch, prompt.group_id),
        prompt=prompt.prompt,
        messages=prompt.messages,
        members=members_of(prompt, members, means),
        components=components_of(members),
        lanes=lanes(session, members, chosen, means, clip, current.index),
        lane_unit=lane_unit(members),
        current=current.index,
        previous=previous,
        next=following,
        view="side" if side else "one",
        views=VIEWS,
        tracks=() if reading is None else track_lines(reading),
        missing=() if reading is None else missing_of(reading, batch),
        shown=None if reading is None else shown(reading, batch, chosen, mean, clip, color),
        columns=columns_of(session, batch, members, chosen, means, clip, color) if side else (),
        window=WINDOW,
    )


def around(numbers: Sequence[int], place: int) -> tuple[int | None, int | None]:
    """The numbers before and after a place."""
    before = numbers[place - 1] if place > 0 else None
    return before, numbers[place + 1] if place + 1 < len(numbers) else None


def members_of(prompt: Prompt, members: Sequence[Rollout], means: dict[int, float]) -> tuple[Member, ...]:
    mean, std = prompt.reward_mean, prompt.reward_std
    return tuple(
        Member(
            index=member.index,
            reward=member.reward,
            nonfinite=member.reward_nonfinite,
            z=None if member.reward is None or mean is None or not std else (member.reward - mean) / std,
            advantage=means.get(member.index),
            length=member.length,
            valid=member.valid,
            finish_reason=member.finish_reason,
            truncated=member.truncated,
            components=dict(member.reward_components or {}),
        )
        for member in members
    )


def components_of(members: Sequence[Rollout]) -> tuple[str, ...]:
    """Names of the reward's parts, in order of appearance; the first eight: a table has no room for more."""
    return tuple(dict.fromkeys(name for member in members for name in member.reward_components or {}))[:8]


def columns_of(
    session: ReadSession,
    batch: Batch,
    members: Sequence[Rollout],
    chosen: choosing.Chosen,
    means: dict[int, float],
    clip: float,
    color: str | None,
) -> tuple[Column, ...]:
    """The first tokens of the first sixteen siblings shown."""
    columns = []
    readings = [read(session, member, chosen) for member in members[:MOST_SIDE]]
    for member, reading in zip(members, readings, strict=False):
        mean = means.get(member.index)
        text = shown(reading, batch, chosen, mean, clip, color, WINDOW, readings)
        columns.append(Column(member.index, member.reward, mean, member.length, text))
    return tuple(columns)


PAGE = Page("/batches/{batch_id}/groups/{group_no}", "pages/group.html", GroupPage, build, "runs")
