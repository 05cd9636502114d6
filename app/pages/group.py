"""`/batches/{id}/groups/{group_no}`: which sibling wins, by how much, and with which tokens?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.deps import Reader
from app.errors import NotFound
from app.pages.advantages import Picker
from app.pages.batch import find_batch, name_of, way_to
from app.pages.cells import Cell
from app.pages.findings import Named, naming
from app.pages.page import Page
from app.pages.reading import WINDOW, Missing, Reading, Shown, TrackLine, missing_of, read, shown, track_lines
from app.pages.scene import Scene, around, scene_of
from app.pages.siblings import LaneLine, lane_unit, lanes
from app.pages.slopes import Slopes, slopes
from app.pages.wall import Wall, wall
from app.templating import Crumb
from storage import batches
from storage.database import ReadSession
from storage.models import Prompt, Rollout, Run

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
    slopes: Slopes
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
    scene = None if prompt is None else scene_of(session, batch, prompt, rollout, estimate)
    if scene is None:
        raise NotFound(
            f"The batch has no group {group_no}; its page lists the {batch.groups} that there are."
        )
    found = wall(session, batch, scene.chosen, sort, around=group_no)
    if view == "side":
        return page_of(session, scene, found, None, None, columns_of(session, scene, color))
    reading = read(session, scene.current, scene.chosen)
    text = shown(reading, batch, scene.chosen, scene.mean, scene.clip, color)
    return page_of(session, scene, found, reading, text, ())


def page_of(
    session: ReadSession,
    scene: Scene,
    found: Wall,
    reading: Reading | None,
    text: Shown | None,
    columns: tuple[Column, ...],
) -> GroupPage:
    batch, prompt, members = scene.batch, scene.prompt, scene.members
    place = next(i for i, cell in enumerate(found.cells) if cell.group_no == prompt.group_no)
    before, after = around([cell.group_no for cell in found.cells], place)
    way = (*way_to(session.get_one(Run, batch.run_id)), Crumb(name_of(batch), f"/batches/{batch.id}"))
    return GroupPage(
        title=f"Group {prompt.group_id}",
        crumbs=(*way, Crumb(f"group {prompt.group_id}")),
        batch_id=batch.id,
        group=found.cells[place],
        wall=found,
        before=before,
        after=after,
        picker=scene.picker,
        findings=naming(batch, prompt.group_id),
        prompt=prompt.prompt,
        messages=prompt.messages,
        members=members_of(prompt, members, scene.means),
        components=components_of(members),
        lanes=lanes(session, members, scene.chosen, scene.means, scene.clip, scene.current.index),
        lane_unit=lane_unit(members),
        slopes=slopes(session, batch, scene.chosen, scene.indices),
        current=scene.current.index,
        previous=scene.before,
        next=scene.after,
        view=VIEWS[0][0] if reading is not None else VIEWS[1][0],
        views=VIEWS,
        tracks=() if reading is None else track_lines(reading),
        missing=() if reading is None else missing_of(reading, batch),
        shown=text,
        columns=columns,
        window=WINDOW,
    )


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


def columns_of(session: ReadSession, scene: Scene, color: str | None) -> tuple[Column, ...]:
    """The first tokens of the first sixteen siblings shown."""
    columns = []
    readings = [read(session, member, scene.chosen) for member in scene.members[:MOST_SIDE]]
    for member, reading in zip(scene.members, readings, strict=False):
        mean = scene.means.get(member.index)
        text = shown(reading, scene.batch, scene.chosen, mean, scene.clip, color, WINDOW, readings)
        columns.append(Column(member.index, member.reward, mean, member.length, text))
    return tuple(columns)


PAGE = Page("/batches/{batch_id}/groups/{group_no}", "pages/group.html", GroupPage, build, "runs")
