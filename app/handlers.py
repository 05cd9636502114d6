"""One way to say no: every error as a page for a person, as problem details for a program."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException as FastAPIHTTPException
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from app import templating
from app.errors import AppError
from app.responses import problem
from estimators import Refused
from storage.arrays import Corrupt
from storage.database_file import DatabaseGone
from storage.pages import BadCursor

#: Answered to programs also where a browser asks.
SERVICE = ("/healthz", "/readyz", "/metrics")

#: What to do where the framework itself says no.
REMEDIES = {
    400: "The request cannot be read. Check its body and its Content-Type.",
    404: "There is nothing at this address. /api/v1/openapi.json lists what there is.",
    405: "This address does not take that method. /api/v1/openapi.json lists which it takes.",
    415: "Send the body as application/json.",
}

ErrorHandler = Callable[[Request, Any], Response | Awaitable[Response]]


def answer(
    request: Request,
    status: int,
    title: str,
    detail: str,
    problems: Sequence[Mapping[str, Any]] = (),
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """The error as HTML where a person looks, else as problem details."""
    if wants_page(request):
        page = templating.error(request, status, title, detail, problems)
        page.headers.update(headers or {})
        return page
    return problem(status, title, detail, map(dict, problems), kind, headers, **members)


def wants_page(request: Request) -> bool:
    path = request.url.path
    programs = path.startswith("/api/") or path.endswith(".json") or path in SERVICE
    return not programs and "text/html" in request.headers.get("accept", "")


def slug(error: AppError) -> str:
    """NotFound -> not-found: the problem's type."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()


def refuse(request: Request, error: AppError) -> Response:
    headers = {"Retry-After": "5"} if error.status == 503 else None
    return answer(
        request,
        error.status,
        error.title,
        error.detail,
        error.problems,
        slug(error),
        headers,
        **error.members,
    )


def app_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AppError)
    return refuse(request, error)


def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    ours = error.detail if error.detail != phrase and error.status_code not in (400, 404, 405) else None
    detail = ours or REMEDIES.get(error.status_code, phrase)
    return answer(request, error.status_code, phrase, detail, headers=error.headers)


def invalid(request: Request, error: Exception) -> Response:
    """FastAPI's validation errors, one sentence each, without what was sent."""
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    unreadable = any(fault["type"] == "json_invalid" for fault in faults)
    problems = [
        {"row": None, "field": field_of(fault), "message": message_of(fault)} for fault in faults[:50]
    ]
    first = "; ".join(f"{entry['field']}: {entry['message']}" for entry in problems[:3])
    detail = f"{first}. Correct this and send it again; /api/v1/openapi.json says what each field takes."
    title = "The body is not JSON" if unreadable else "The request is not as described"
    return answer(request, 400 if unreadable else 422, title, detail, problems, "invalid")


def field_of(fault: Mapping[str, Any]) -> str:
    """("query", "limit") -> "limit"; ("body", "panels", 0, "figure") -> "panels.0.figure"."""
    location = fault["loc"]
    names = [] if fault["type"] == "json_invalid" else [str(part) for part in location[1:]]
    return ".".join(names) or str(location[0] if location else "request")


def message_of(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "json_invalid":
        error = fault.get("ctx", {}).get("error", "it cannot be parsed")
        return f"not JSON at character {fault['loc'][-1]}: {error}"
    if isinstance(fault.get("input"), bytes):
        return "is not JSON; send it with Content-Type: application/json"
    text = str(fault["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]


def refused(request: Request, error: Exception) -> Response:
    """An estimator that says why it cannot answer for this batch."""
    return answer(request, 422, "Understood, but cannot be done", str(error), kind="unprocessable")


def bad_cursor(request: Request, error: Exception) -> Response:
    """A page's cursor that its list did not make; the lists of the API say so themselves."""
    text = str(error)
    return answer(
        request, 400, "The request cannot be answered", f"{text[:1].upper()}{text[1:]}.", kind="cursor"
    )


def gone(_request: Request, _error: Exception) -> Response:
    """The client went away while it sent; nobody reads this."""
    return Response(status_code=400)


def corrupt(request: Request, _error: Exception) -> Response:
    detail = "A stored array does not match its checksum. `vantage check` lists them; upload the file again."
    return answer(request, 500, "Stored data are damaged", detail, kind="corrupt")


def database_away(request: Request, _error: Exception) -> Response:
    detail = (
        "The database does not answer or is busy. Try again in a few seconds; /readyz says when it is back."
    )
    return answer(request, 503, "Not available now", detail, kind="busy", headers={"Retry-After": "5"})


def database_gone(request: Request, error: Exception) -> Response:
    return answer(request, 503, "Not available now", str(error), kind="database-gone")


def database_conflict(request: Request, _error: Exception) -> Response:
    detail = "Something else changed the same thing at the same time. Send the request again."
    return answer(request, 409, "In conflict with what is there", detail, kind="conflict")


def database_refuses(request: Request, error: Exception) -> Response:
    """A value that cannot go to the database. What the database says of our own SQL is another matter."""
    if isinstance(error, DBAPIError) and not isinstance(error, DataError):
        raise error
    detail = "A value in the request cannot be stored: a NUL character, or a number out of range. Correct it."
    return answer(request, 422, "Understood, but cannot be done", detail, kind="unprocessable")


def unforeseen(request: Request) -> Response:
    """The answer to an error nobody thought of: its request id, and nothing of its insides."""
    request_id = request.scope.get("state", {}).get("request_id", "")
    detail = f"Something broke on the server. Its log has the cause under the request id {request_id}."
    try:
        return answer(request, 500, "Internal error", detail, kind="internal", request_id=request_id)
    except Exception:  # the page itself may be what broke
        return problem(500, "Internal error", detail, kind="internal", request_id=request_id)


HANDLERS: dict[Any, ErrorHandler] = {
    AppError: app_error,
    HTTPException: http_error,
    FastAPIHTTPException: http_error,
    RequestValidationError: invalid,
    Refused: refused,
    BadCursor: bad_cursor,
    ClientDisconnect: gone,
    Corrupt: corrupt,
    DatabaseGone: database_gone,
    OperationalError: database_away,
    PoolTimeout: database_away,
    IntegrityError: database_conflict,
    DataError: database_refuses,
    OverflowError: database_refuses,
    StatementError: database_refuses,
}
