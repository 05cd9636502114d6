"""Batches and what is to be said of them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response

from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import Id, batch_of, run_names, run_of
from app.api.schemas.data import BatchDetail, BatchPage, FindingItem
from app.api.strict import StrictRoute
from app.attempts import said
from app.deleting import delete_spent_uploads, return_space
from app.deps import EngineDep, JobsDep, Reader, SettingsDep, Writer
from app.estimation import forget_step
from app.responses import etag, not_modified, respond
from storage import batches, unchecked, uploads
from storage.database import AnySession
from storage.models import Batch, Upload

router = APIRouter(prefix="/api/v1/batches", tags=["batches"], route_class=StrictRoute)

SHOWN_PROBLEMS = 100
PROBLEM_FIELDS = ("file", "row", "field", "severity", "code", "message")


@router.get("", response_model=BatchPage)
def list_batches(
    request: Request,
    session: Reader,
    run: Annotated[
        str | None, Query(max_length=300, description="Only those of this run (id or name).")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List batches, newest first."""
    run_id = None if run is None else run_of(session, run).id
    with asked(cursor):
        page = batches.page(session, run_id, limit, cursor)
    names = run_names(session, (batch.run_id for batch in page.items))
    return respond(request, listed(page, lambda batch: batch_item(batch, names[batch.run_id])))


def batch_item(batch: Batch, run: str) -> dict[str, Any]:
    return {
        "id": batch.id,
        "run": run,
        "run_id": batch.run_id,
        "step": batch.step,
        "split": batch.split,
        "format": batch.format,
        "rollouts": batch.rollouts,
        "groups": batch.groups,
        "tokens": batch.tokens,
        "created": batch.created,
        "findings": batch.codes,
    }


@router.get("/{batch_id}", response_model=BatchDetail)
def get_batch(request: Request, session: Reader, batch_id: Id) -> Response:
    """A batch: counts, which fields are recorded, derived or absent, where it comes from, problems,
    statistics."""
    batch = batch_of(session, batch_id)
    failed = unchecked.of_batch(session, batch.id)
    tag = etag("batch", batch.id, *failed)  # a reconciliation may take one away later
    return not_modified(request, tag) or respond(request, describe(session, batch, failed), etag=tag)


def describe(session: AnySession, batch: Batch, failed: Mapping[str, str]) -> dict[str, Any]:
    upload = session.get_one(Upload, batch.upload_id)
    found = uploads.problems(session, upload.id, SHOWN_PROBLEMS)
    return {
        **batch_item(batch, run_names(session, [batch.run_id])[batch.run_id]),
        "fields": batch.fields,
        "provenance": {
            "upload": upload.id,
            "filename": upload.filename,
            "sha256": upload.sha256,
            "header": batch.header,
        },
        "statistics": batch.statistics,
        "unchecked": said(failed),
        "problems": [{name: getattr(problem, name) for name in PROBLEM_FIELDS} for problem in found],
        "problem_counts": upload.problem_counts,
    }


@router.get("/{batch_id}/findings", response_model=list[FindingItem])
def list_findings(request: Request, session: Reader, batch_id: Id) -> Response:
    """What is wrong with the batch, worst first, with the numbers that prove it and the rows it concerns.

    The header X-Unchecked has the codes of checks that could not be done, where there are any.
    """
    batch = batch_of(session, batch_id)
    failed = unchecked.of_batch(session, batch.id)
    tag = etag("findings", batch.id, *batch.codes.items(), *failed)  # a reconciliation may add one later
    headers = {"X-Unchecked": ", ".join(failed)} if failed else None
    return not_modified(request, tag) or respond(request, batch.findings, headers=headers, etag=tag)


@router.delete("/{batch_id}", status_code=204)
def delete_batch(
    session: Writer,
    jobs: JobsDep,
    engine: EngineDep,
    settings: SettingsDep,
    batch_id: Id,
    later: BackgroundTasks,
) -> Response:
    """Delete a batch with its estimates, and its upload and file if nothing else is left of them. Later
    steps whiten their running scope anew without it."""
    batch = batch_of(session, batch_id)
    run_id, split, step, upload_id = batch.run_id, batch.split, batch.step, batch.upload_id
    batches.delete(session, batch.id)
    forget_step(session, jobs, run_id, split, step)
    delete_spent_uploads(session, settings, [upload_id])
    later.add_task(return_space, engine)
    return Response(status_code=204, background=later)
