"""One rollout among its siblings: what the pages of a group and of a rollout both read."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.figures.chosen import Chosen
from app.figures.members import group_means
from app.pages.advantages import Picker, pick, step_clip
from app.pages.siblings import near
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch, Prompt, Rollout


@dataclass(frozen=True, slots=True)
class Scene:
    """`indices`: every rollout of the group, in order; `members`: those near `current`, at `position`.

    means           advantage per rollout of `members`, by index; `clip`: where colours end over the step
    before, after   the siblings beside it
    """

    batch: Batch
    prompt: Prompt
    indices: Sequence[int]
    position: int
    members: Sequence[Rollout]
    current: Rollout
    picker: Picker
    chosen: Chosen
    means: dict[int, float]
    clip: float
    before: int | None
    after: int | None

    @property
    def mean(self) -> float | None:
        return self.means.get(self.current.index)


def scene_of(
    session: ReadSession, batch: Batch, prompt: Prompt, index: int | None, estimate: str | None
) -> Scene | None:
    """With the rollout `index` in it, or the first one; None where the group has no rollouts."""
    indices = rollouts.indices_of_group(session, batch.id, prompt.group_no)
    if not indices:
        return None
    position = indices.index(index) if index in indices else 0
    members = rollouts.of_group(session, batch.id, prompt.group_no, near(indices, position))
    members.sort(key=lambda member: member.index)
    picker, chosen = pick(session, batch, estimate, per_token=True)
    before, after = around(indices, position)
    return Scene(
        batch=batch,
        prompt=prompt,
        indices=indices,
        position=position,
        members=members,
        current=next(member for member in members if member.index == indices[position]),
        picker=picker,
        chosen=chosen,
        means=group_means(session, members, chosen),
        clip=step_clip(session, batch, chosen),
        before=before,
        after=after,
    )


def around(numbers: Sequence[int], place: int) -> tuple[int | None, int | None]:
    """The numbers before and after a place."""
    before = numbers[place - 1] if place > 0 else None
    return before, numbers[place + 1] if place + 1 < len(numbers) else None
