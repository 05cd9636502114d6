"""What the earlier steps of a run left behind: moments of the raw advantages for running whitening, and the
state of estimators that go on from step to step."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from app.tasks import Task
from app.tensors import load, token_fields
from estimators import ESTIMATORS, Moments, Refused, Request, Whitening, estimate, missing
from estimators.estimator import State
from storage import estimates
from storage.database import WriteSession, read, write
from storage.models import Batch, Estimate


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


def carries(request: Request) -> bool:
    """Whether the estimator goes on from what the earlier steps left behind."""
    return ESTIMATORS[request.estimator].carry is not None


def earlier_state(task: Task, batch: Batch, request: Request) -> tuple[State | None, dict[str, Any]]:
    """For an estimator that goes on from step to step: the state after the earlier steps, and what the
    summary says of them.

    Starts from the newest step that kept its own; a step that lacks a field is a gap.
    """
    carry = ESTIMATORS[request.estimator].carry
    if carry is None:
        return None, {}
    if batch.step is None:
        raise Refused("This estimator follows the steps of a run, and this batch has no step.")
    earlier = earlier_batches(task, batch)
    known = kept_states(task, [id for _, id in earlier], moments_key(request))
    first = max((i + 1 for i, (_, id) in enumerate(earlier) if id in known), default=0)
    state: State = known[earlier[first - 1][1]] if first else {}
    gaps: list[int] = []
    for step, batch_id in earlier[first:]:
        task.check()
        with read(task.engine) as session:
            loaded = load(session, batch_id, token_fields(request), request.grouping).batch
        if missing(loaded, request):
            gaps.append(step)
        else:
            state = carry(loaded.to(task.device), request.params, state)
    return state, {"history": {"steps": len(earlier) - len(gaps), "gaps": gaps}}


def carried(request: Request, batch: Any, state: State | None) -> dict[str, Any]:
    """What the summary keeps for the next step: the state after this batch."""
    carry = ESTIMATORS[request.estimator].carry
    if carry is None:
        return {}
    after = carry(batch, request.params, state or {})
    return {"carried": {name: list(values) for name, values in after.items()}}


def kept_states(task: Task, batch_ids: Sequence[str], key: str) -> dict[str, State]:
    """The states that finished estimates of the same request left behind, by batch."""
    if not batch_ids:
        return {}
    statement = select(Estimate).where(Estimate.batch_id.in_(batch_ids), Estimate.state == "succeeded")
    with read(task.engine) as session:
        rows = [(row.batch_id, row.request, row.summary or {}) for row in session.scalars(statement)]
    return {
        batch_id: {name: tuple(values) for name, values in summary["carried"].items()}
        for batch_id, request, summary in rows
        if "carried" in summary and estimates.moments_key(request) == key
    }


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
    """Store the moments of a batch's raw advantages, by unit. Those that overflow are left out: the step is a
    gap for later ones."""
    finite = {unit: m for unit, m in moments.items() if math.isfinite(m.mean) and math.isfinite(m.m2)}
    plain = {unit: (int(m.count), m.mean, m.m2) for unit, m in finite.items()}
    estimates.put_moments(session, batch_id, key, plain)
