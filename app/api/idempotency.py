"""`Idempotency-Key`: a POST that is sent again with the same key is answered as the first one was.

The key is claimed before the work. The answer is kept in the work's own transaction (`app.deps.Keyed`), so
that a process killed at any moment leaves both or neither. What starts a job is answered anew each time: the
work itself knows the same request again, and the answer should say how far the job is by now. An answer that
may not be kept (`no-store`: it holds a secret) is not given a second time.

Uploads, by body or by form, are not buffered here; they keep their key themselves (app/api/uploads.py).
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import zstandard
from fastapi import HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.deps import KEYED, Keyed
from app.errors import AppError, BadRequest, Busy, Conflict, TooLarge, Unprocessable
from app.security.limits import UPLOAD_FORM, UPLOADS
from storage import idempotency
from storage.database import AnySession, WriteSession, write
from storage.models import IdempotencyKey

HEADER = "Idempotency-Key"
LONGEST = 255
PENDING = 0
#: A claim without an answer for so long was left by a killed process.
STALE_SECONDS = 120.0
#: The database is away or busy, or every connection to it is taken.
NOT_NOW = (OperationalError, NoConnection)
AWAY = "The database does not answer or is busy. Send the request again in a few seconds, with the same key."
KEPT_HEADERS = ("content-type", "location", "etag", "cache-control")


@dataclass(frozen=True, slots=True)
class Claim:
    """`digest` is of everything that decides the answer."""

    key: str
    path: str
    digest: str


@dataclass(slots=True)
class Answer:
    """What the application sends, held back until it is kept."""

    messages: list[Message] = field(default_factory=list)

    async def take(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> Headers:
        return Headers(raw=self.messages[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])


def keep_answers(app: ASGIApp, refuse: Callable[[Request, AppError], Response]) -> ASGIApp:
    """An ASGI middleware that gives each keyed POST one answer."""

    async def kept(scope: Scope, receive: Receive, send: Send) -> None:
        keyed = scope["type"] == "http" and scope["method"] == "POST" and HEADER in Headers(scope=scope)
        if not keyed or scope["path"] in (UPLOADS, UPLOAD_FORM):
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await request.body()
            claimed = claim_of(request, body)
            engine: Engine = request.app.state.engine
            before = await run_in_threadpool(claim, engine, claimed)
        except AppError as error:
            before = refuse(request, error)
        except HTTPException as error:  # the body turned out too large
            before = refuse(request, TooLarge(error.detail))
        except NOT_NOW:
            before = refuse(request, Busy(AWAY))
        except ClientDisconnect:
            return
        if before is not None:
            await before(scope, receive, send)
            return
        try:
            answer = await answer_once(app, engine, claimed, scope, once_more(body))
        except NOT_NOW:
            await refuse(request, Busy(AWAY))(scope, receive, send)
            return
        for message in answer.messages:
            await send(message)

    return kept


async def answer_once(app: ASGIApp, engine: Engine, claimed: Claim, scope: Scope, receive: Receive) -> Answer:
    """The application's answer, once it is kept together with what it says was done."""
    answer, keyed = Answer(), Keyed()
    scope.setdefault("state", {})[KEYED] = keyed
    try:
        await app(scope, receive, answer.take)
        await run_in_threadpool(settle, engine, claimed, answer, keyed)
    except BaseException:
        keyed.undo()
        await run_in_threadpool(release, engine, claimed)
        raise
    return answer


def once_more(body: bytes) -> Receive:
    """A `receive` that gives the body that was read already, and then waits for nothing."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def key_of(request: Request) -> str | None:
    """Raises BadRequest."""
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= LONGEST and key.isprintable()):
        raise BadRequest(f"{HEADER} must have 1 to {LONGEST} printable characters.")
    return key


def claim_of(request: Request, content: bytes) -> Claim:
    """`content`: of the body. How long the caller waits makes no other request."""
    query = sorted((name, value) for name, value in request.query_params.multi_items() if name != "wait")
    digest = hashlib.sha256(repr(query).encode("utf-8", "replace") + content).hexdigest()
    return Claim(key_of(request) or "", request.url.path, digest)


def claim(engine: Engine, wanted: Claim) -> Response | None:
    """Claim the key: None where the work is to be done, else the answer of then. Raises Conflict,
    Unprocessable."""
    with write(engine) as session:
        if idempotency.remember(session, wanted.key, wanted.path, wanted.digest, PENDING, {}, b""):
            return None
        found = known(session, wanted)
        if found is None or found.status == 202:
            return None
        if found.status != PENDING:
            return replayed(found)
        if found.created > time.time() - STALE_SECONDS:
            raise Conflict(
                f"The first request with this {HEADER} is still at work. Send it again in a moment."
            )
        found.created = time.time()
        return None


def known(session: AnySession, wanted: Claim) -> IdempotencyKey | None:
    """What is kept under the key. Raises Unprocessable where that was another request."""
    found = idempotency.lookup(session, wanted.key)
    if found is not None and (found.path, found.digest) != (wanted.path, wanted.digest):
        raise Unprocessable(
            f"This {HEADER} was used before with another request. Use a new key for each new request."
        )
    return found


def replayed(found: IdempotencyKey) -> Response:
    if "no-store" in found.headers.get("cache-control", ""):
        raise Conflict(
            "This was done when the key was first used, and the answer held what is shown only once. "
            "If it was lost, undo what was made and ask again with a new key."
        )
    return Response(found.body, found.status, {**found.headers, "Idempotent-Replayed": "true"})


def settle(engine: Engine, claimed: Claim, answer: Answer, keyed: Keyed) -> None:
    """Commit the work and, if the answer says that something was done, the answer with it."""
    if not 200 <= answer.status < 300:
        keyed.finish()
        release(engine, claimed)
        return
    headers = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    secret = "no-store" in headers.get("cache-control", "")
    body = b"" if secret or answer.status == 202 else plain(answer)
    if keyed.session is None:
        with write(engine) as session:
            keep(session, claimed, answer.status, headers, body)
        return
    keep(keyed.session, claimed, answer.status, headers, body)
    keyed.finish()


def keep(session: WriteSession, claimed: Claim, status: int, headers: dict[str, str], body: bytes) -> None:
    found = idempotency.lookup(session, claimed.key)
    if found is not None:
        found.status, found.headers, found.body = status, headers, body


def plain(answer: Answer) -> bytes:
    if answer.headers.get("content-encoding") == "zstd":
        return zstandard.ZstdDecompressor().decompress(answer.body)
    return answer.body


def release(engine: Engine, claimed: Claim) -> None:
    """Give the key back: nothing was done. While the database is away the claim stays, until it is stale."""
    with suppress(*NOT_NOW), write(engine) as session:
        found = idempotency.lookup(session, claimed.key)
        if found is not None and found.status == PENDING:
            session.delete(found)
