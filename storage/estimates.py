"""Estimates: asked for once per batch and request, stored per rollout, with moments for the running scope.

Their token arrays are fields of the batch, "advantages:<id>" and the like (see `field`), in storage.arrays.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete as delete_from
from sqlalchemy import func, select

from storage import jobs, packed
from storage.database import BINARY, AnySession, WriteSession, insert_new, upsert
from storage.ids import new_id
from storage.models import Batch, Estimate, EstimateRollout, PackedEstimate, RunningMoments, TokenArray
from storage.pages import Page, Sort, paginate
from storage.service_models import Dashboard, Panel

#: Float columns of `estimate_rollout`.
COLUMNS = ("advantage", "advantage_raw", "raw_m2", "advantage_min", "advantage_max", "total_abs")

Moments = tuple[int, float, float]  # count, mean, Σ(x−mean)²


def field(name: str, estimate_id: str) -> str:
    """The name under which an estimate's token arrays are stored: "advantages:<id>"."""
    return f"{name}:{estimate_id}"


def request(
    session: WriteSession,
    batch_id: str,
    request: dict[str, Any],
    request_hash: str,
    *,
    estimator: str,
    convention: str | None = None,
    default: bool = False,
    total: int = 0,
) -> tuple[Estimate, bool]:
    """The estimate of this request on this batch, and whether it was made just now (in state "queued")."""
    row = {
        "id": new_id(), "batch_id": batch_id, "request": request, "request_hash": request_hash,
        "estimator": estimator, "convention": convention, "default": default, "state": "queued",
        "total": total, "created": time.time(),
    }  # fmt: skip
    created = insert_new(session, Estimate, row, ["batch_id", "request_hash"])
    where = (Estimate.batch_id == batch_id, Estimate.request_hash == request_hash)
    return session.execute(select(Estimate).where(*where)).scalar_one(), created


def get(session: AnySession, estimate_id: str) -> Estimate | None:
    return session.get(Estimate, estimate_id)


def of_batch(session: AnySession, batch_id: str) -> list[Estimate]:
    """The batch's estimates, Vantage's own first, then by age."""
    order = (Estimate.default.desc(), Estimate.created, Estimate.id)
    return list(
        session.execute(select(Estimate).where(Estimate.batch_id == batch_id).order_by(*order)).scalars()
    )


def page(
    session: AnySession, batch_id: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[Estimate]:
    """Estimates, newest first."""
    where = [] if batch_id is None else [Estimate.batch_id == batch_id]
    sort = Sort("-created", Estimate.created, Estimate.id, True)
    rows, following = paginate(session, select(Estimate).where(*where), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(Estimate).where(*where)).scalar_one()
    return Page([row.Estimate for row in rows], following, total)


def put_rollouts(
    session: WriteSession,
    estimate_id: str,
    index: NDArray[np.int64] | Sequence[int],
    values: Mapping[str, NDArray[np.float64] | Sequence[float]],
) -> None:
    """Store (or replace) what the estimate says of some rollouts.

    `index` `[n]`: the rollouts; `values`: names of `COLUMNS` -> `[n]`, NaN where there is nothing to say.
    """
    unknown = set(values) - set(COLUMNS)
    if unknown:
        raise ValueError(f"not columns of an estimate: {', '.join(sorted(unknown))}")
    numbers = np.asarray(index, np.int64).tolist()
    empty: list[float | None] = [None] * len(numbers)
    lists = [_nullable(values[name]) if name in values else empty for name in COLUMNS]
    rows = [
        {"estimate_id": estimate_id, "index": number, **dict(zip(COLUMNS, row, strict=True))}
        for number, *row in zip(numbers, *lists, strict=True)
    ]
    upsert(session, EstimateRollout, rows)


def pack(
    session: WriteSession,
    estimate_id: str,
    index: NDArray[np.int64],
    values: Mapping[str, NDArray[np.float64]],
) -> None:
    """Keep all columns as one too, when all are stored. Arguments as for `put_rollouts`, all of COLUMNS."""
    order = np.argsort(index)
    columns = {"index": index[order], **{name: np.asarray(values[name])[order] for name in COLUMNS}}
    session.add(PackedEstimate(estimate_id=estimate_id, data=packed.pack(columns)))


def columns(session: AnySession, estimate_id: str) -> dict[str, NDArray[Any]]:
    """`index` (int64) and every one of `COLUMNS` (float64, NaN where null), by index."""
    names = ("index", *COLUMNS)
    data = session.execute(
        select(PackedEstimate.data).where(PackedEstimate.estimate_id == estimate_id),
        execution_options=BINARY,
    ).scalar_one_or_none()
    found = packed.kept(data)
    return found if found is not None and found.keys() == set(names) else read_columns(session, estimate_id)


def read_columns(session: AnySession, estimate_id: str) -> dict[str, NDArray[Any]]:
    """The columns from the estimate's rows."""
    names = ("index", *COLUMNS)
    table = EstimateRollout.__table__.c  # plain columns: the ORM's own cost as much again
    statement = select(*(table[name] for name in names)).where(table.estimate_id == estimate_id)
    rows = session.execute(statement.order_by(table.index), execution_options=BINARY).all()
    raw = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {
        name: np.array(values, np.int64 if name == "index" else np.float64)
        for name, values in zip(names, raw, strict=True)
    }


def finish(
    session: WriteSession,
    estimate_id: str,
    state: str = "succeeded",
    *,
    error: str | None = None,
    per_token: bool | None = None,
    device: str | None = None,
    timing: dict[str, Any] | None = None,
    summary: dict[str, Any] | None = None,
) -> bool:
    """End the estimate with its results. False where it had ended already."""
    return jobs.finish(
        session, Estimate, estimate_id, state, error, per_token=per_token, device=device, timing=timing,
        summary=summary,
    )  # fmt: skip


def clear(session: WriteSession, estimate_id: str) -> None:
    """Remove stored results, before the estimate is computed anew."""
    found = session.get(Estimate, estimate_id)
    if found is None:
        return
    for model in (EstimateRollout, PackedEstimate):
        session.execute(delete_from(model).where(model.estimate_id == estimate_id))
    names = select(TokenArray.field).where(TokenArray.batch_id == found.batch_id).distinct()
    stored = [name for name in session.execute(names).scalars() if name.endswith(f":{estimate_id}")]
    session.execute(
        delete_from(TokenArray).where(TokenArray.batch_id == found.batch_id, TokenArray.field.in_(stored))
    )


def delete(session: WriteSession, estimate_id: str) -> None:
    """Remove the estimate and what it stored. Moments of raw advantages stay: other requests share them."""
    clear(session, estimate_id)
    session.execute(delete_from(Estimate).where(Estimate.id == estimate_id))


def pinned(session: AnySession, estimate_id: str) -> list[str]:
    """Titles of the dashboards with a panel of this estimate."""
    of_panel = select(Panel.dashboard_id).where(Panel.estimate_id == estimate_id)
    found = select(Dashboard.title).where(Dashboard.id.in_(of_panel)).order_by(Dashboard.title)
    return list(session.execute(found).scalars())


def moments_key(request: Mapping[str, Any]) -> str:
    """The key of kept moments: equal for requests (as dicts) with the same raw advantages, whatever their
    whitening."""
    parts = {name: request.get(name) for name in ("estimator", "params", "precision", "grouping")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def put_moments(session: WriteSession, batch_id: str, key: str, moments: Mapping[str, Moments]) -> None:
    """Store (or replace) a batch's moments, unit ("token" | "response") -> (count, mean, Σ(x−mean)²)."""
    batch = session.get_one(Batch, batch_id)
    place = {
        "batch_id": batch_id,
        "key": key,
        "run_id": batch.run_id,
        "split": batch.split,
        "step": batch.step,
    }
    rows = [
        {**place, "unit": unit, "count": int(count), "mean": float(mean), "m2": float(m2)}
        for unit, (count, mean, m2) in moments.items()
    ]
    upsert(session, RunningMoments, rows)


def moments_of(session: AnySession, batch_id: str, key: str, unit: str) -> Moments | None:
    """The moments of one batch."""
    found = session.get(RunningMoments, (batch_id, key, unit))
    return None if found is None else (found.count, found.mean, found.m2)


def history(
    session: AnySession,
    run_id: str,
    split: str | None,
    step: int | None,
    key: str,
    unit: str,
    *,
    before: bool = False,
) -> list[Moments]:
    """Moments of the newest ready batch of each step up to `step`, in step order.

    `before` leaves out `step` itself. A newest batch without moments of this key leaves a gap; without a step
    there is no history.
    """
    if step is None:
        return []
    limit = Batch.step < step if before else Batch.step <= step
    place = Batch.split.is_(None) if split is None else Batch.split == split
    batches = session.execute(
        select(Batch.step, Batch.id)
        .where(Batch.run_id == run_id, place, limit, Batch.state == "ready")
        .order_by(Batch.step, Batch.created, Batch.id)
    )
    newest = {row.step: row.id for row in batches}
    statement = select(RunningMoments).where(
        RunningMoments.run_id == run_id, RunningMoments.key == key, RunningMoments.unit == unit
    )
    stored = {row.batch_id: row for row in session.execute(statement).scalars()}
    return [
        (stored[batch].count, stored[batch].mean, stored[batch].m2)
        for batch in newest.values()
        if batch in stored
    ]


def _nullable(values: NDArray[np.float64] | Sequence[float]) -> list[float | None]:
    array = np.asarray(values, np.float64)
    return [None if absent else value for value, absent in zip(array.tolist(), np.isnan(array), strict=True)]
