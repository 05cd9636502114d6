"""Uploads that come in pieces: begun, sent from where they stand, completed, given up."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app import pieces, transfers
from app.api.lookup import Id
from app.api.receiving import UploadOptions
from app.api.schemas.transfers import (
    MOST_BYTES,
    PIECE_BODY,
    Beginning,
    Completion,
    TransferDigests,
    TransferItem,
)
from app.api.schemas.uploads import RECEIVED, Receipt
from app.api.strict import StrictRoute
from app.api.uploads import answer
from app.api.waiting import Wait, ended
from app.deps import ClosingDep, EngineDep, JobsDep, Reader, SettingsDep, WaitersDep
from app.errors import BadRequest
from app.responses import respond
from app.security.limits import TRANSFERS
from app.transfers import Announced
from app.uploads import check_encoding

router = APIRouter(tags=["uploads"], route_class=StrictRoute)

OFFSET = "Upload-Offset"
LENGTH = "Upload-Length"

UploadKey = Annotated[
    str,
    Header(
        alias="Upload-Key",
        min_length=16,
        max_length=255,
        description="A secret of the sender's own making; each further request has to show it.",
    ),
]
Offset = Annotated[
    int,
    Header(alias=OFFSET, ge=0, le=MOST_BYTES, description="Where the piece begins: how many bytes are here."),
]
Start = Annotated[int, Query(ge=0, le=MOST_BYTES, description="Where the first block begins.")]
#: The header of these answers says where the transfer stands.
STANDS = {OFFSET: {"description": "How many bytes are here.", "schema": {"type": "integer"}}}


@router.post(TRANSFERS, status_code=201, response_model=TransferItem)
def create_transfer(
    request: Request,
    engine: EngineDep,
    settings: SettingsDep,
    options: Annotated[UploadOptions, Query()],
    beginning: Beginning,
    key: UploadKey,
) -> Response:
    """Begin an upload that comes in pieces, with the names and sizes of its files.

    The bytes of all files, one file after the other, are one stream. PATCH appends to it, HEAD says where it
    stands, after a lost connection too; completing it makes it an upload like any other.
    """
    files = [Announced(file.filename, file.bytes, file.encoding) for file in beginning.files]
    made = transfers.begin(engine, settings, files, options.options(), key)
    body = transfers.describe(made, settings)
    return respond(request, body, 201, {"Location": f"{TRANSFERS}/{made.id}"})


@router.get(f"{TRANSFERS}/{{transfer_id}}", response_model=TransferItem)
def get_transfer(
    request: Request, session: Reader, settings: SettingsDep, transfer_id: Id, key: UploadKey
) -> Response:
    """How much of a transfer is here, and when it would be deleted."""
    found = transfers.find(session, transfer_id, key)
    return respond(request, transfers.describe(found, settings), headers={"Cache-Control": "no-store"})


@router.head(f"{TRANSFERS}/{{transfer_id}}", status_code=204, responses={204: {"headers": STANDS}})
def head_transfer(session: Reader, settings: SettingsDep, transfer_id: Id, key: UploadKey) -> Response:
    """Where the next piece of a transfer begins: the header `Upload-Offset`."""
    body = transfers.describe(transfers.find(session, transfer_id, key), settings)
    stands = {OFFSET: str(body["offset"]), LENGTH: str(body["bytes"]), "Cache-Control": "no-store"}
    return Response(status_code=204, headers=stands)


@router.patch(
    f"{TRANSFERS}/{{transfer_id}}",
    status_code=204,
    openapi_extra=PIECE_BODY,
    responses={204: {"headers": STANDS}},
)
async def send_piece(
    request: Request,
    engine: EngineDep,
    settings: SettingsDep,
    transfer_id: Id,
    key: UploadKey,
    offset: Offset,
    content_length: Annotated[int | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Append the body to a transfer, at the offset where it stands.

    At any other offset it is 409, and the problem's `offset` says where it stands. What came of a piece that
    breaks off stays. The answer means that the bytes are on disk.
    """
    if check_encoding(request.headers.get("content-encoding")) is not None:
        raise BadRequest(
            "A piece is taken as it is, without Content-Encoding. Compress the file before it is begun, "
            "and begin it with the size that it then has."
        )
    known = await run_in_threadpool(transfers.unfinished, engine, transfer_id, key)
    with pieces.alone(transfers.pieces_of(known, settings)):
        # Once more: it may have been completed or given up before this one's turn came.
        known = await run_in_threadpool(transfers.unfinished, engine, transfer_id, key)
        stands = await transfers.append(known, settings, offset, request.stream(), content_length)
    return Response(status_code=204, headers={OFFSET: str(stands), LENGTH: str(known.bytes)})


@router.get(f"{TRANSFERS}/{{transfer_id}}/digests", response_model=TransferDigests)
def get_digests(
    request: Request,
    engine: EngineDep,
    settings: SettingsDep,
    transfer_id: Id,
    key: UploadKey,
    start: Start = 0,
) -> Response:
    """Digests of what is here, at most 32 blocks: to tell whether a file is the one that was begun."""
    found = transfers.unfinished(engine, transfer_id, key)
    body = transfers.digests(found, settings, start)
    return respond(request, body, headers={"Cache-Control": "no-store"})


@router.post(
    f"{TRANSFERS}/{{transfer_id}}/complete",
    status_code=201,
    response_model=Receipt,
    responses=RECEIVED,
)
async def complete_transfer(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    settings: SettingsDep,
    transfer_id: Id,
    key: UploadKey,
    closing: ClosingDep,
    waiters: WaitersDep,
    completion: Completion | None = None,
    wait: Wait = 0,
) -> Response:
    """Make a transfer whose bytes are all here an upload, answered as any other upload is.

    Asked again, the answer is of the same upload.
    """
    sha256 = None if completion is None else completion.sha256
    called = (engine, jobs, settings, transfer_id, key, sha256)
    upload_id, created = await run_in_threadpool(transfers.complete, *called)
    await ended(engine, "ingest", upload_id, wait, closing, waiters)
    return await run_in_threadpool(answer, request, engine, upload_id, created)


@router.delete(f"{TRANSFERS}/{{transfer_id}}", status_code=204)
def delete_transfer(engine: EngineDep, settings: SettingsDep, transfer_id: Id, key: UploadKey) -> Response:
    """Give a transfer up. Nothing of it stays."""
    transfers.abandon(engine, settings, transfer_id, key)
    return Response(status_code=204)
