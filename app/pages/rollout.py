"""`/batches/{id}/rollouts/{index}`: which tokens get the credit or the blame?"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app.deps import Reader
from app.errors import NotFound
from app.pages.advantages import Picker
from app.pages.batch import find_batch, name_of, way_to
from app.pages.findings import Named, naming
from app.pages.page import Page
from app.pages.provenance import line_of
from app.pages.reading import Missing, Reading, Shown, missing_of, read, shown
from app.pages.run import ChartOf
from app.pages.scene import Scene, scene_of
from app.pages.siblings import LaneLine, lane_unit, lanes
from app.templating import Crumb, with_query
from storage import rollouts
from storage.database import ReadSession
from storage.models import Prompt, Rollout, Run

#: Columns of a rollout that are shown as they are, where they are recorded, and their names.
FACTS = {
    "finish_reason": "ended by",
    "truncated": "truncated",
    "terminated": "terminated",
    "sample_id": "sample id",
    "sample_index": "sample",
    "rollout_id": "rollout id",
    "segment": "segment",
    "policy_version": "policy version",
    "rank": "rank",
    "micro_batch": "micro batch",
    "reward_baseline": "reward baseline",
    "bootstrap_value": "bootstrap value",
}


@dataclass(frozen=True, slots=True)
class RolloutPage:
    """`position` of `siblings`: which response of its group it is. `mean`: of its unmasked advantages."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    index: int
    row: int
    file: str | None
    group_no: int
    group_id: str
    position: int
    siblings: int
    data_source: str | None
    reward: float | None
    reward_rule: str
    nonfinite: str | None
    components: dict[str, Any]
    mean: float | None
    recorded: float | None
    length: int | None
    valid: int | None
    facts: tuple[tuple[str, Any], ...]
    ground_truth: str | None
    prompt: str | None
    messages: list[Any] | None
    turns: list[Any] | None
    extra: dict[str, Any]
    picker: Picker
    findings: tuple[Named, ...]
    lanes: tuple[LaneLine, ...]
    lane_unit: str
    shown: Shown
    missing: tuple[Missing, ...]
    chart: ChartOf | None
    previous: int | None
    next: int | None
    group_before: int | None
    group_after: int | None


def build(
    session: Reader, batch_id: str, index: int, estimate: str | None = None, color: str | None = None
) -> RolloutPage:
    scene, reading = looked_at(session, batch_id, index, estimate)
    return page_of(session, scene, reading, coloured(scene, reading, color))


def looked_at(session: ReadSession, batch_id: str, index: int, estimate: str | None) -> tuple[Scene, Reading]:
    """A rollout among its siblings, and what its tokens have. Raises NotFound."""
    batch = find_batch(session, batch_id)
    rollout = rollouts.get(session, batch.id, index)
    if rollout is None:
        raise NotFound(f"The batch has no rollout {index}; it has {batch.rollouts}, counted from 0.")
    prompt = session.get_one(Prompt, (batch.id, rollout.group_no))
    scene = scene_of(session, batch, prompt, index, estimate)
    assert scene is not None  # the rollout itself is in it
    return scene, read(session, rollout, scene.chosen)


def coloured(scene: Scene, reading: Reading, color: str | None) -> Shown:
    return shown(reading, scene.batch, scene.chosen, scene.mean, scene.clip, color)


def page_of(session: ReadSession, scene: Scene, reading: Reading, text: Shown) -> RolloutPage:
    batch, prompt, rollout, used = scene.batch, scene.prompt, scene.current, scene.picker.used.key
    return RolloutPage(
        title=f"Rollout #{rollout.index}",
        crumbs=crumbs_of(session, scene),
        batch_id=batch.id,
        index=rollout.index,
        row=rollout.row,
        file=rollout.file,
        group_no=rollout.group_no,
        group_id=prompt.group_id,
        position=scene.position + 1,
        siblings=len(scene.indices),
        data_source=rollout.data_source,
        reward=rollout.reward,
        reward_rule=line_of("reward", str(batch.fields.get("reward", "absent")), batch.format).rule,
        nonfinite=rollout.reward_nonfinite,
        components=dict(rollout.reward_components or {}),
        mean=scene.mean,
        recorded=rollout.advantage,
        length=rollout.length,
        valid=rollout.valid,
        facts=facts_of(rollout),
        ground_truth=rollout.ground_truth,
        prompt=rollout.prompt or prompt.prompt,
        messages=rollout.prompt_messages or prompt.messages,
        turns=rollout.messages,
        extra=dict(rollout.extra or {}),
        picker=scene.picker,
        findings=naming(batch, prompt.group_id, rollout.index),
        lanes=lanes(session, scene.members, scene.chosen, scene.means, scene.clip, rollout.index),
        lane_unit=lane_unit(scene.members),
        shown=text,
        missing=missing_of(reading, batch),
        chart=chart_of(batch.id, rollout.index, used) if reading.tracks else None,
        previous=scene.before,
        next=scene.after,
        group_before=neighbour(session, rollout, -1),
        group_after=neighbour(session, rollout, 1),
    )


def crumbs_of(session: ReadSession, scene: Scene) -> tuple[Crumb, ...]:
    batch, href = scene.batch, f"/batches/{scene.batch.id}"
    query = with_query("", estimate=scene.picker.used.key)
    return (
        *way_to(session.get_one(Run, batch.run_id)),
        Crumb(name_of(batch), f"{href}{query}"),
        Crumb(f"group {scene.prompt.group_id}", f"{href}/groups/{scene.prompt.group_no}{query}"),
        Crumb(f"rollout #{scene.current.index}"),
    )


def facts_of(rollout: Rollout) -> tuple[tuple[str, Any], ...]:
    values = ((words, getattr(rollout, name)) for name, words in FACTS.items())
    plain = {True: "yes", False: "no"}
    return tuple(
        (words, plain[value] if isinstance(value, bool) else value)
        for words, value in values
        if value is not None
    )


def chart_of(batch_id: str, index: int, estimate: str | None) -> ChartOf:
    query = with_query("", rollout=index, estimate=estimate)
    return ChartOf("token_tracks", "Tracks", f"/api/v1/batches/{batch_id}/figures/token_tracks{query}")


def neighbour(session: ReadSession, rollout: Rollout, step: int) -> int | None:
    """The first rollout of the group before (−1) or after (1)."""
    number = rollout.group_no + step
    statement = select(Rollout.index).where(Rollout.batch_id == rollout.batch_id, Rollout.group_no == number)
    return session.scalar(statement.order_by(Rollout.index).limit(1))


PAGE = Page("/batches/{batch_id}/rollouts/{index}", "pages/rollout.html", RolloutPage, build, "runs")
