"""What the forms of the pages do. Each is one call of what the API calls, and leads back to a page."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from app import analysis, estimation, lifecycle, mapping_view, rereading, uploads
from app.deps import EngineDep, JobsDep, SettingsDep
from app.example import load
from app.ingest.mapping import check_fields
from app.pages.columns import asked
from app.pages.request_form import body_of
from app.pages.verify import request_of
from storage.database import read

router = APIRouter()

SEE_OTHER = 303


async def form_fields(request: Request) -> list[tuple[str, str]]:
    """The text fields of a small form, in order."""
    form = await request.form(max_files=0, max_fields=400)
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


@router.post("/batches/{batch_id}/estimates")
def request_estimate(
    engine: EngineDep,
    queue: JobsDep,
    batch_id: str,
    fields: Annotated[list[tuple[str, str]], Depends(form_fields)],
) -> Response:
    """Ask for the estimate that the form describes, and show the batch under it."""
    estimate_id, _ = estimation.request_estimate(engine, queue, batch_id, body_of(fields))
    return RedirectResponse(f"/batches/{batch_id}?estimate={estimate_id}", SEE_OTHER)


@router.post("/estimates/{estimate_id}/cancel")
def cancel_estimate(engine: EngineDep, queue: JobsDep, estimate_id: str) -> Response:
    batch_id = batch_of(engine, estimate_id)
    lifecycle.request_cancel(engine, queue, "estimate", estimate_id)
    return RedirectResponse(f"/batches/{batch_id}?estimate={estimate_id}", SEE_OTHER)


def batch_of(engine: EngineDep, estimate_id: str) -> str:
    """The batch of an estimate. Raises NotFound."""
    with read(engine) as session:
        return str(estimation.describe(session, estimate_id)["batch"])


@router.post("/batches/{batch_id}/reconcile")
def request_reconcile(
    engine: EngineDep,
    queue: JobsDep,
    batch_id: str,
    fields: Annotated[list[tuple[str, str]], Depends(form_fields)],
) -> Response:
    """Ask which convention or mistake made the recorded advantages, and show what comes of it."""
    asked = {name: value for name, value in fields if name == "convention" and value}
    analysis_id, _ = analysis.request_reconcile(engine, queue, batch_id, asked)
    return RedirectResponse(f"/batches/{batch_id}/verify?analysis={analysis_id}", SEE_OTHER)


@router.post("/analyses/{analysis_id}/candidates/{place}")
def compute_candidate(engine: EngineDep, queue: JobsDep, analysis_id: str, place: int) -> Response:
    """Compute one of the candidates, and draw it against what is recorded."""
    with read(engine) as session:
        batch_id, body = request_of(session, analysis_id, place)
    estimate_id, _ = estimation.request_estimate(engine, queue, batch_id, body)
    address = f"/batches/{batch_id}/verify?analysis={analysis_id}&estimate={estimate_id}#against"
    return RedirectResponse(address, SEE_OTHER)


@router.post("/analyses/{analysis_id}/cancel")
def cancel_analysis(engine: EngineDep, queue: JobsDep, analysis_id: str) -> Response:
    with read(engine) as session:
        batch_id = analysis.describe(session, analysis_id)["batch"]
    lifecycle.request_cancel(engine, queue, "analysis", analysis_id)
    return RedirectResponse(f"/batches/{batch_id}/verify?analysis={analysis_id}", SEE_OTHER)


@router.post("/uploads/{upload_id}/cancel")
def cancel_upload(engine: EngineDep, queue: JobsDep, upload_id: str) -> Response:
    uploads.cancel(engine, queue, upload_id)
    return RedirectResponse(f"/uploads/{upload_id}", SEE_OTHER)


@router.post("/uploads/{upload_id}/columns")
def read_again(
    engine: EngineDep,
    queue: JobsDep,
    settings: SettingsDep,
    upload_id: str,
    fields: Annotated[list[tuple[str, str]], Depends(form_fields)],
) -> Response:
    """Read the upload's table once more with the columns that were chosen."""
    with read(engine) as session:
        table = mapping_view.as_json(mapping_view.table_of(session, upload_id, settings))
    said = asked(fields, table)
    check_fields(said["columns"])
    changes = {name: value for name, value in said.items() if name != "run" or value is not None}
    new_id, _ = rereading.again(engine, queue, settings, upload_id, changes, ("replace", "1") in fields)
    return RedirectResponse(f"/uploads/{new_id}", SEE_OTHER)


@router.post("/example")
def load_example(engine: EngineDep, queue: JobsDep, settings: SettingsDep) -> Response:
    """Load the built-in examples, and show the receipt of the run among them."""
    upload_ids = load(engine, queue, settings)
    return RedirectResponse(f"/uploads/{upload_ids[-1]}", SEE_OTHER)
