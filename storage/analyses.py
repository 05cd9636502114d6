"""Analyses: asked for once per batch, kind and request; their answer is one JSON document."""

import time
from typing import Any

from sqlalchemy import func, select

from storage import jobs
from storage.database import AnySession, WriteSession, insert_new
from storage.ids import new_id
from storage.models import Analysis
from storage.pages import Page, Sort, paginate


def request(
    session: WriteSession,
    batch_id: str,
    kind: str,
    request: dict[str, Any],
    request_hash: str,
    *,
    default: bool = False,
    total: int = 0,
    done: int = 0,
) -> tuple[Analysis, bool]:
    """The analysis of this kind and request on this batch, and whether it was made just now ("queued")."""
    row = {
        "id": new_id(), "batch_id": batch_id, "kind": kind, "request": request, "request_hash": request_hash,
        "default": default, "state": "queued", "total": total, "done": done,
        "created": time.time(),
    }  # fmt: skip
    created = insert_new(session, Analysis, row, ["batch_id", "kind", "request_hash"])
    where = (Analysis.batch_id == batch_id, Analysis.kind == kind, Analysis.request_hash == request_hash)
    return session.execute(select(Analysis).where(*where)).scalar_one(), created


def get(session: AnySession, analysis_id: str) -> Analysis | None:
    return session.get(Analysis, analysis_id)


def of_batch(session: AnySession, batch_id: str, kind: str | None = None) -> list[Analysis]:
    """The batch's analyses, Vantage's own first, then by age; `kind` narrows."""
    where = [Analysis.batch_id == batch_id] + ([] if kind is None else [Analysis.kind == kind])
    order = (Analysis.default.desc(), Analysis.created, Analysis.id)
    return list(session.execute(select(Analysis).where(*where).order_by(*order)).scalars())


def page(
    session: AnySession, batch_id: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[Analysis]:
    """Analyses, newest first."""
    where = [] if batch_id is None else [Analysis.batch_id == batch_id]
    sort = Sort("-created", Analysis.created, Analysis.id, True)
    rows, following = paginate(session, select(Analysis).where(*where), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(Analysis).where(*where)).scalar_one()
    return Page([row.Analysis for row in rows], following, total)


def finish(
    session: WriteSession,
    analysis_id: str,
    result: dict[str, Any],
    *,
    device: str | None = None,
    timing: dict[str, Any] | None = None,
) -> bool:
    """End the analysis with its answer. False where it had ended already."""
    answered: dict[str, Any] = {"device": device, "timing": timing, "result": result}
    return jobs.finish(session, Analysis, analysis_id, "succeeded", done=Analysis.total, **answered)
