"""The fewest rollouts and tokens that still show a finding or a verdict, as a file to hand on."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api.lookup import Id, analysis_of, batch_of, version_of
from app.api.schemas.common import binary
from app.api.strict import StrictRoute
from app.deps import Reader, SettingsDep
from app.reproducer import of_analysis, of_finding
from app.responses import etag, not_modified
from app.shrinking import Reproducer

router = APIRouter(prefix="/api/v1", tags=["analyses"], route_class=StrictRoute)

JSONL = "application/x-ndjson"
BLOCK = 1 << 16
FILE = binary(JSONL, text="Canonical JSONL, header line first.")
Code = Annotated[str, Path(max_length=64, description="Code of a finding of the batch.")]
Texts = Annotated[bool, Query(description="With prompts, responses and token texts; else with numbers only.")]


@router.get(
    "/batches/{batch_id}/findings/{code}/reproducer", response_class=StreamingResponse, responses=FILE
)
def finding_reproducer(
    request: Request, session: Reader, settings: SettingsDep, batch_id: Id, code: Code, texts: Texts = False
) -> Response:
    """Give the fewest rollouts and tokens that still show a finding. Uploading the file shows it again."""
    batch = batch_of(session, batch_id)
    tag = etag("reproducer", batch.id, code, texts)
    return not_modified(request, tag) or sent(of_finding(session, settings, batch, code, texts), tag)


@router.get("/analyses/{analysis_id}/reproducer", response_class=StreamingResponse, responses=FILE)
def analysis_reproducer(
    request: Request, session: Reader, settings: SettingsDep, analysis_id: Id, texts: Texts = False
) -> Response:
    """Give the fewest rollouts and tokens that still get a reconciliation's verdict."""
    analysis = analysis_of(session, analysis_id)
    batch = batch_of(session, analysis.batch_id)
    tag = etag("reproducer", version_of(analysis), texts)
    return not_modified(request, tag) or sent(of_analysis(session, settings, batch, analysis, texts), tag)


def sent(made: Reproducer, tag: str) -> Response:
    headers = {
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f'attachment; filename="{made.name}"',
    }
    return StreamingResponse(blocks(made.content), 200, headers, JSONL)


def blocks(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), BLOCK):
        yield content[start : start + BLOCK]
