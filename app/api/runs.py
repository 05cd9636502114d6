"""Runs and their steps."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response

from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import RunKey, run_of
from app.api.schemas.data import RunDetail, RunPage, StepPage
from app.api.strict import StrictRoute
from app.attempts import said
from app.deleting import delete_spent_uploads, return_space
from app.deps import EngineDep, Reader, SettingsDep, Writer
from app.errors import BadRequest
from app.findings.of_run import kept_findings
from app.responses import respond
from storage import runs, uploads
from storage.pages import Page, decode_cursor, encode_cursor
from storage.runs import StepRow

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], route_class=StrictRoute)

STEPS = "steps"  # the name of the list in its cursors


@router.get("", response_model=RunPage)
def list_runs(request: Request, session: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List runs, the one that got a batch last first."""
    with asked(cursor):
        page = runs.page(session, limit, cursor)
    return respond(request, listed(page, asdict))


@router.get("/{run:path}/steps", response_model=StepPage)
def list_steps(
    request: Request,
    session: Reader,
    run: RunKey,
    split: Annotated[str | None, Query(max_length=64, description="Only batches of this split.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List the batches of a run in step order: counts, reward, signal, length, advantages, findings."""
    found = run_of(session, run)
    with asked(cursor):
        page = slice_of(runs.steps(session, found.id, split), limit, cursor)
    return respond(request, listed(page, step_item))


def slice_of(rows: list[StepRow], limit: int, cursor: str | None) -> Page[StepRow]:
    """One page of a list that is known whole; the cursor names the last batch of the page before."""
    start = 0
    if cursor is not None:
        last, _ = decode_cursor(cursor, STEPS)
        start = next((place + 1 for place, row in enumerate(rows) if row.batch_id == last), -1)
        if start < 0:
            raise BadRequest(
                "The batch at which this page starts is not there any more. Start again without a cursor."
            )
    shown = rows[start : start + limit]
    more = start + limit < len(rows)
    return Page(shown, encode_cursor(STEPS, shown[-1].batch_id, None) if more else None, len(rows))


def step_item(row: StepRow) -> dict[str, Any]:
    statistics = row.statistics
    return {
        "batch": row.batch_id,
        "step": row.step,
        "split": row.split,
        "newest": row.newest,
        "format": row.format,
        "rollouts": row.rollouts,
        "groups": row.groups,
        "tokens": row.tokens,
        "created": row.created,
        "reward": statistics.get("reward"),
        "zero_signal_share": statistics.get("zero_signal_share"),
        "signal": statistics.get("signal"),
        "length": (statistics.get("length") or {}).get("all"),
        "advantage": statistics.get("advantage"),
        "findings": row.codes,
    }


@router.get("/{run:path}", response_model=RunDetail)
def get_run(request: Request, session: Reader, run: RunKey) -> Response:
    """A run: what it holds, its splits, and what changed over its steps that a person should know."""
    found = run_of(session, run)
    held = runs.row(session, found.id)
    assert held is not None
    checked = kept_findings(runs.steps(session, found.id))
    more = {"findings": checked.findings, "unchecked": said(checked.failed)}
    return respond(request, {**asdict(held), "splits": runs.splits(session, found.id), **more})


@router.delete("/{run:path}", status_code=204)
def delete_run(
    session: Writer, engine: EngineDep, settings: SettingsDep, run: RunKey, later: BackgroundTasks
) -> Response:
    """Delete a run with its batches, their estimates, and the uploads and files that they came from."""
    found = run_of(session, run)
    sources = uploads.of_run(session, found.id)
    runs.delete(session, found.id)
    delete_spent_uploads(session, settings, sources)
    later.add_task(return_space, engine)
    return Response(status_code=204, background=later)
