"""From an id in an address to its row, or the sentence that says where the right id is found."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Path
from sqlalchemy import select

from app.errors import Conflict, NotFound
from storage import analyses, batches, estimates, rollouts, runs
from storage.database import AnySession
from storage.models import Analysis, Batch, Estimate, Prompt, Rollout, Run

#: More rollouts than this no batch can have, and no database column could hold much more.
MOST_INDEX = 2**31 - 1

Id = Annotated[str, Path(max_length=64, description="Its id.")]
RunKey = Annotated[str, Path(description="Id or name of the run.", max_length=300)]
GroupId = Annotated[str, Path(description="`group_id` as recorded; it may hold slashes.", max_length=10_000)]
Index = Annotated[int, Path(ge=0, le=MOST_INDEX, description="Place of the rollout in its batch, from 0.")]


def run_of(session: AnySession, key: str) -> Run:
    run = runs.find(session, key)
    if run is None:
        raise NotFound(f"There is no run {key!r}. GET /api/v1/runs lists them.")
    return run


def batch_of(session: AnySession, batch_id: str) -> Batch:
    batch = batches.get(session, batch_id)
    if batch is None:
        raise NotFound(f"There is no batch {batch_id!r}. GET /api/v1/batches lists them.")
    return batch


def rollout_of(session: AnySession, batch: Batch, index: int) -> Rollout:
    rollout = rollouts.get(session, batch.id, index)
    if rollout is None:
        raise NotFound(
            f"The batch has no rollout {index}. It has {batch.rollouts}, counted from 0; "
            f"GET /api/v1/batches/{batch.id}/rollouts lists them."
        )
    return rollout


def group_of(session: AnySession, batch: Batch, group_id: str) -> Prompt:
    group = batches.group(session, batch.id, group_id)
    if group is None:
        raise NotFound(
            f"The batch has no group {group_id!r}. "
            f"GET /api/v1/batches/{batch.id}/groups lists its {batch.groups}."
        )
    return group


def estimate_of(session: AnySession, estimate_id: str) -> Estimate:
    estimate = estimates.get(session, estimate_id)
    if estimate is None:
        raise NotFound(
            f"There is no estimate {estimate_id!r}. GET /api/v1/batches/{{id}}/estimates lists a batch's."
        )
    return estimate


def analysis_of(session: AnySession, analysis_id: str) -> Analysis:
    analysis = analyses.get(session, analysis_id)
    if analysis is None:
        raise NotFound(
            f"There is no analysis {analysis_id!r}. GET /api/v1/batches/{{id}}/analyses lists a batch's."
        )
    return analysis


def finished(estimate: Estimate) -> Estimate:
    """The estimate, if its numbers are there. Raises Conflict."""
    if estimate.state != "succeeded":
        raise Conflict(
            f"The estimate is {estimate.state}, so its numbers are not there. "
            f"GET /api/v1/estimates/{estimate.id} says how far it is, or why it ended."
        )
    return estimate


def estimate_in(session: AnySession, batch: Batch, estimate_id: str | None) -> Estimate | None:
    """The finished estimate of this batch that a list shows; None for none and for "recorded"."""
    if estimate_id in (None, "", "recorded"):
        return None
    estimate = estimates.get(session, str(estimate_id))
    if estimate is None or estimate.batch_id != batch.id:
        raise NotFound(
            f"The batch has no estimate {estimate_id!r}. "
            f"GET /api/v1/batches/{batch.id}/estimates lists its own."
        )
    return finished(estimate)


def version_of(job: Estimate | Analysis | None) -> str:
    """Changes when the estimate or analysis is computed again: for ETags."""
    return "" if job is None else f"{job.id}.{job.revision}.{job.finished!r}"


def run_names(session: AnySession, run_ids: Iterable[str]) -> dict[str, str]:
    """Id -> name."""
    rows = session.execute(select(Run.id, Run.name).where(Run.id.in_(set(run_ids))))
    return {row.id: row.name for row in rows}
