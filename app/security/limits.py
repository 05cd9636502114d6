"""How much a request may send: refused by its Content-Length, else as soon as it has sent too much."""

from collections.abc import Callable

from fastapi import HTTPException, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import AppError, TooLarge
from app.settings import Settings

UPLOADS = "/api/v1/uploads"
UPLOAD_FORM = "/uploads"
TRANSFERS = "/api/v1/transfers"
TOKENIZERS = "/api/v1/tokenizers"

#: Boundaries and part headers of a multipart upload come on top of its files.
MULTIPART_OVERHEAD = 1 << 20
#: Of the list of files that begins a transfer.
MAX_LIST_BYTES = 4 << 20


def limit_bodies(
    app: ASGIApp, settings: Settings, refuse: Callable[[Request, AppError], Response]
) -> ASGIApp:
    """An ASGI middleware that bounds request bodies: uploads by `max_upload_bytes`, others by
    `max_body_bytes`."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        limit, error = limit_of(scope["path"], settings)
        announced = Request(scope).headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced[:20]) > limit:
            await refuse(Request(scope), error)(scope, receive, send)
            return
        await app(scope, counted(receive, limit, error), send)

    return limited


def limit_of(path: str, settings: Settings) -> tuple[int, AppError]:
    if path in (UPLOADS, UPLOAD_FORM):
        size = settings.max_upload_bytes
        return size + MULTIPART_OVERHEAD, TooLarge(
            f"The upload is larger than {size} bytes. Send it in parts, compress it with gzip or zstd, "
            "or raise VANTAGE_MAX_UPLOAD_BYTES."
        )
    if path == TRANSFERS:
        return MAX_LIST_BYTES, TooLarge(
            f"The list of files is larger than {MAX_LIST_BYTES} bytes. Send them as a zip, or in parts."
        )
    if path.startswith(f"{TRANSFERS}/") and path.count("/") == TRANSFERS.count("/") + 1:
        size = settings.max_upload_bytes
        return size, TooLarge(
            f"The piece is larger than an upload may be, {size} bytes. "
            "Send less, or raise VANTAGE_MAX_UPLOAD_BYTES."
        )
    if path.startswith(f"{TOKENIZERS}/"):
        size = settings.max_tokenizer_bytes
        return size, TooLarge(
            f"The tokenizer is larger than {size} bytes. Raise VANTAGE_MAX_TOKENIZER_BYTES to take it."
        )
    size = settings.max_body_bytes
    return size, TooLarge(
        f"The body is larger than {size} bytes. Send less, or raise VANTAGE_MAX_BODY_BYTES; "
        f"rollouts go to {UPLOADS}."
    )


def counted(receive: Receive, limit: int, error: AppError) -> Receive:
    taken = 0

    async def receive_counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            # An HTTPException passes through FastAPI's body parsing unchanged; an AppError would become a
            # plain 400.
            raise HTTPException(error.status, error.detail)
        return message

    return receive_counted
