"""Estimates: what may be asked of a batch, asking for it, and what the worker does then."""

import hashlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from sqlalchemy import Engine, select

from app.errors import NotFound, Unprocessable
from app.jobs import BULK, INTERACTIVE, Jobs, progress
from app.lifecycle import requeue
from app.pairs import pairs_of
from app.results import Result, store_results, summarise
from app.running import carried, carries, earlier_moments, earlier_state, moments_key, put_moments
from app.tasks import Task
from app.tensors import Loaded, load, token_fields
from estimators import (
    ESTIMATORS,
    ROLLOUT_FIELDS,
    TOKEN_FIELDS,
    Batch,
    Refused,
    Request,
    estimate,
    missing,
    usable,
)
from storage import batches, estimates
from storage.database import AnySession, WriteSession, read, write
from storage.models import Batch as BatchRow
from storage.models import Estimate

#: The first results are written as soon as some are packed, then more at a time: each transaction costs as
#: much as storing some MB. In units of the setting `chunk_bytes`.
GROWTH = (1, 2, 3)


def request_estimate(engine: Engine, jobs: Jobs, batch_id: str, body: Mapping[str, Any]) -> tuple[str, bool]:
    """Ask for an estimate: (id, created). The same request on the same batch is the same estimate; one that
    failed or was cancelled is computed again. Raises NotFound, Unprocessable."""
    with write(engine) as session:
        batch = batches.get(session, batch_id)
        if batch is None:
            raise NotFound(f"There is no batch with the id {batch_id!r}.")
        request = parse(body)
        check_possible(batch, request)
        row, created = ask(session, jobs, batch, request, INTERACTIVE)
        if not created and row.state in ("failed", "cancelled"):
            requeue(session, jobs, "estimate", row.id, INTERACTIVE)
        return row.id, created


def parse(body: Mapping[str, Any]) -> Request:
    """The request of an API body, everything spelt out. Raises Unprocessable."""
    try:
        return Request.from_dict(body)
    except ValueError as error:
        raise Unprocessable(str(error)) from error


def ask(
    session: WriteSession, jobs: Jobs, batch: BatchRow, request: Request, priority: int, default: bool = False
) -> tuple[Estimate, bool]:
    """The row of this request, made and queued in the caller's transaction unless it is there already."""
    spelt = request.to_dict()
    row, created = estimates.request(
        session,
        batch.id,
        spelt,
        request_hash(spelt),
        estimator=request.estimator,
        convention=request.convention,
        default=default,
        total=batch.rollouts,
    )
    if created:
        jobs.enqueue(session, "estimate", row.id, row.revision, priority)
    return row, created


def request_hash(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def check_possible(batch: BatchRow, request: Request) -> None:
    """Raises Unprocessable, naming the fields that are not there and the estimators that would work."""
    outline = outline_of(batch.fields)
    lacking = missing(outline, request)
    able = [estimator.name for estimator in usable(outline)]
    if lacking:
        works = (
            f"These would work: {', '.join(able)}." if able else "Without rewards no estimator would work."
        )
        name = request.convention or request.estimator
        raise Unprocessable(
            f"{name} needs {' and '.join(lacking)}, which this batch lacks. {works}",
            [{"row": None, "field": field, "message": f"{field} is not recorded."} for field in lacking],
            missing=list(lacking),
            usable=able,
        )
    if carries(request) and batch.step is None:
        raise Unprocessable(
            f"{request.convention or request.estimator} follows the steps of a run, and this batch has no "
            "step. Upload it with step=N, or choose batch_z."
        )
    if request.whitening.scope == "running" and batch.step is None:
        raise Unprocessable(
            "Running whitening follows the steps of a run, and this batch has no step. "
            "Upload it with step=N, or whiten over the batch."
        )
    prompts = has(batch.fields, "prompt") or has(batch.fields, "prompt_messages")
    if request.grouping == "prompt" and not prompts:
        raise Unprocessable(
            "Grouping by prompt needs prompts, and this batch has none. Use group_id or stride:N."
        )


def has(fields: Mapping[str, Any], name: str) -> bool:
    return bool(fields.get(name, "absent") != "absent")


def outline_of(fields: Mapping[str, Any]) -> Batch:
    """A batch of one token with what `fields` says is there: enough to ask what is missing."""
    one = torch.ones(1, dtype=torch.float64)
    number = torch.zeros(1, dtype=torch.int64)
    recorded: dict[str, Any] = {name: one if has(fields, name) else None for name in TOKEN_FIELDS}
    recorded |= {name: number if has(fields, name) else None for name in ROLLOUT_FIELDS}
    return Batch(
        offsets=torch.tensor([0, 1]),
        response_mask=torch.ones(1, dtype=torch.bool),
        group=number,
        scores=one if has(fields, "reward") else one * torch.nan,
        components={"reward": one} if has(fields, "reward_components") else {},
        **recorded,
    )


def describe(session: AnySession, estimate_id: str) -> dict[str, Any]:
    """The estimate as the API shows it. Raises NotFound."""
    row = estimates.get(session, estimate_id)
    if row is None:
        raise NotFound(f"There is no estimate with the id {estimate_id!r}.")
    return {
        "id": row.id,
        "batch": row.batch_id,
        "convention": row.convention,
        "estimator": row.estimator,
        "request": row.request,
        "default": row.default,
        "state": row.state,
        "progress": progress("estimate", row),
        "device": row.device,
        "timing": row.timing,
        "per_token": row.per_token,
        "summary": row.summary,
        "error": row.error,
        "created": row.created,
        "finished": row.finished,
    }


def forget_step(
    session: WriteSession, jobs: Jobs, run_id: str, split: str | None, step: int | None
) -> list[str]:
    """After a batch of this step came or went: compute again the running estimates of later steps, which saw
    it (or its absence) as history; their ids. Call it in the transaction of the change."""
    if step is None:
        return []
    place = BatchRow.split.is_(None) if split is None else BatchRow.split == split
    later = (
        select(Estimate)
        .join(BatchRow, BatchRow.id == Estimate.batch_id)
        .where(BatchRow.run_id == run_id, place, BatchRow.step > step, BatchRow.state == "ready")
        .where(Estimate.state.in_(("running", "succeeded", "failed")))
        .order_by(BatchRow.step)
    )
    stale = [row for row in session.scalars(later) if follows_steps(row)]
    for row in stale:
        requeue(session, jobs, "estimate", row.id, BULK)
    return [row.id for row in stale]


def follows_steps(row: Estimate) -> bool:
    """Whether the numbers of the estimate depend on the run's earlier steps."""
    return row.request["whitening"]["scope"] == "running" or ESTIMATORS[row.estimator].carry is not None


def run_estimate(task: Task, estimate_id: str) -> None:
    """The body of the job: load, compute, store chunk by chunk, sum up."""
    with read(task.engine) as session:
        row = estimates.get(session, estimate_id)
        batch = None if row is None else batches.get(session, row.batch_id)
        if row is None or batch is None:
            return
        session.expunge_all()
    request, batch_id = Request.from_dict(row.request), batch.id
    started = time.perf_counter()

    def begin(session: WriteSession) -> dict[str, list[int]]:
        estimates.clear(session, estimate_id)
        return {"sizes": [factor * task.settings.chunk_bytes for factor in GROWTH]}

    plan = task.commit(begin)
    loaded, result, timing, past = computed(task, batch, request)
    task.stage("storing")
    with ThreadPoolExecutor(1, "summary") as beside:
        summary = beside.submit(summarise, loaded, result)
        store_results(task, estimate_id, batch_id, loaded, result, sizes_of(plan))
    found: dict[str, Any] = {
        "per_token": result.per_token,
        "device": device_name(task.device),
        "summary": summary.result() | past,
        "timing": timing | {"total_seconds": time.perf_counter() - started},
    }

    def end(session: WriteSession) -> None:
        put_moments(session, batch_id, moments_key(request), result.moments)
        estimates.pack(session, estimate_id, loaded.columns.index, result.rollouts)
        estimates.finish(session, estimate_id, **found)

    task.commit(end)


def sizes_of(plan: Mapping[str, Any]) -> list[int]:
    """How much each transaction stores, as the job's first attempt recorded it, perhaps a version before."""
    return [int(size) for size in plan.get("sizes", [plan.get("chunk_bytes")])]


def computed(
    task: Task, batch: BatchRow, request: Request
) -> tuple[Loaded, Result, dict[str, float], dict[str, Any]]:
    """The batch, its estimate, what took how long, and what the summary says of earlier steps.

    Raises Refused where the batch does not allow it.
    """
    began = time.perf_counter()
    task.stage("loading")
    loaded = load_cached(task, batch.id, request)
    lacking = missing(loaded.batch, request)
    if lacking:
        raise Refused(f"The batch lacks {' and '.join(lacking)}.")
    timing = {"load_seconds": time.perf_counter() - began}
    history, past = earlier_moments(task, batch, request)
    state, before = earlier_state(task, batch, request)
    task.stage("computing")
    began = time.perf_counter()
    result = Result.of(estimate(loaded.batch, request, history, state))
    timing["compute_seconds"] = time.perf_counter() - began
    past |= before | carried(request, loaded.batch, state) | pairs_of(loaded, request, result.raw)
    return loaded, result, timing, past


def load_cached(task: Task, batch_id: str, request: Request) -> Loaded:
    """The batch on the worker's device, as the request needs it."""
    fields = token_fields(request)

    def from_storage() -> Loaded:
        with read(task.engine) as session:
            return load(session, batch_id, fields, request.grouping)

    return task.cache.get((batch_id, fields, request.grouping), task.device, from_storage)


def device_name(device: str) -> str:
    """The device as the estimate records it: with the name of the GPU."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else device
