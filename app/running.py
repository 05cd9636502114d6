"""The history that running whitening needs: moments of the raw advantages of a run's earlier steps."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from app.tasks import Task
from app.tensors import load, token_fields
from estimators import Moments, Refused, Request, Whitening, estimate, missing
from storage import estimates
from storage.database import WriteSession, read, write
from storage.models import Batch


def moments_key(request: Request) -> str:
    """Equal for requests with the same raw advantages: everything of the request but its whitening."""
    return estimates.moments_key(request.to_dict())


def earlier_moments(task: Task, batch: Batch, request: Request) -> tuple[list[Moments], dict[str, Any]]:
    """For the running scope: the moments of the run's earlier steps, and what the summary says of them.

    Moments that no estimate left behind yet are computed here. A step that cannot be estimated leaves a gap,
    which is named.
    """
    if request.whitening.scope != "running":
        return [], {}
    if batch.step is None:
        raise Refused("Running whitening follows the steps of a run, and this batch has no step.")
    key, unit = moments_key(request), request.whitening.unit
    gaps: list[int] = []
    found: list[Moments] = []
    for step, batch_id in earlier_batches(task, batch):
        task.check()
        moments = stored(task, batch_id, key, unit)
        if moments is None:
            moments = computed(task, batch_id, request, key)
        if moments is None:
            gaps.append(step)
        else:
            found.append(moments)
    return found, {"history": {"steps": len(found), "gaps": gaps, "count": sum(m.count for m in found)}}


def earlier_batches(task: Task, batch: Batch) -> list[tuple[int, str]]:
    """The newest ready batch of each earlier step of the same run and split: (step, id), in step order."""
    place = Batch.split.is_(None) if batch.split is None else Batch.split == batch.split
    statement = (
        select(Batch.step, Batch.id)
        .where(Batch.run_id == batch.run_id, place, Batch.step < batch.step, Batch.state == "ready")
        .order_by(Batch.step, Batch.created, Batch.id)
    )
    with read(task.engine) as session:
        newest = {int(step): id for step, id in session.execute(statement) if step is not None}
    return list(newest.items())


def stored(task: Task, batch_id: str, key: str, unit: str) -> Moments | None:
    with read(task.engine) as session:
        found = estimates.moments_of(session, batch_id, key, unit)
    return None if found is None else Moments(*found)


def computed(task: Task, batch_id: str, request: Request, key: str) -> Moments | None:
    """Estimate an earlier batch without whitening and keep its moments; None where that cannot be done."""
    with read(task.engine) as session:
        batch = load(session, batch_id, token_fields(request), request.grouping).batch
    if missing(batch, Request(request.estimator, request.params, Whitening())):
        return None
    raw = Request(request.estimator, request.params, Whitening(), request.precision, request.grouping)
    try:
        found = estimate(batch.to(task.device), raw).moments
    except Refused:
        return None
    with write(task.engine) as session:
        if session.get(Batch, batch_id) is not None:
            put_moments(session, batch_id, key, found)
    return found[request.whitening.unit]


def put_moments(session: WriteSession, batch_id: str, key: str, moments: Mapping[str, Moments]) -> None:
    """Store the moments of a batch's raw advantages, by unit."""
    plain = {unit: (int(m.count), m.mean, m.m2) for unit, m in moments.items()}
    estimates.put_moments(session, batch_id, key, plain)
