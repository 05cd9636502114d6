"""What became of something that was asked for and is computed by a job: an estimate or an analysis."""

from collections.abc import Callable
from typing import Any, Literal

from fastapi import Request, Response
from sqlalchemy import Engine

from app.errors import Conflict
from app.jobs import FINAL, Jobs
from app.lifecycle import request_cancel
from app.responses import PROBLEM_JSON, dumps, respond
from storage.database import ReadSession, read

Kind = Literal["estimate", "analysis"]
Describe = Callable[[ReadSession, str], dict[str, Any]]

CANNOT: dict[Kind, str] = {
    "estimate": "The estimate cannot be computed",
    "analysis": "The analysis cannot be done",
}


def answer(
    request: Request, engine: Engine, kind: Kind, job_id: str, describe: Describe, address: str, created: bool
) -> Response:
    """What `describe` says, with the status that says what became of the request."""
    with read(engine) as session:
        content = describe(session, job_id)
    location = {"Location": f"{address}/{job_id}"}
    if content["state"] not in FINAL:
        return respond(request, content, 202, location)
    if content["state"] == "succeeded":
        return respond(request, content, 201 if created else 200, location)
    status = 422 if content["state"] == "failed" else 409
    said = {
        "type": f"urn:vantage:{kind}-{content['state']}",
        "title": CANNOT[kind] if status == 422 else f"The {kind} was cancelled",
        "status": status,
        "detail": content["error"] or "Ask for it again.",
    }
    return Response(dumps({**content, **said}), status, location, PROBLEM_JSON)


def cancel(
    request: Request, engine: Engine, jobs: Jobs, kind: Kind, job_id: str, describe: Describe, address: str
) -> Response:
    """Ask the job to stop, and say how it stands. Raises Conflict where it has ended already."""
    state = request_cancel(engine, jobs, kind, job_id)
    if state in ("succeeded", "failed"):
        raise Conflict(f"The {kind} has {state} already, so there is nothing to cancel.")
    with read(engine) as session:
        content = describe(session, job_id)
    location = {"Location": f"{address}/{job_id}"}
    return respond(request, content, 200 if state == "cancelled" else 202, location)
