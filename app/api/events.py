"""The progress of a job as server-sent events: one event each time it changed, the last when it has ended."""

from collections.abc import AsyncIterator

from fastapi.sse import ServerSentEvent
from sqlalchemy import Engine

from app.errors import NotFound
from app.jobs import Kind, follow
from app.responses import dumps
from app.shared_polls import SharedPolls


async def events_of(
    polls: SharedPolls, engine: Engine, kind: Kind, job_id: str
) -> AsyncIterator[ServerSentEvent]:
    """`progress` events; `gone` when the job was deleted meanwhile, as the answer has begun by then."""
    try:
        async for body in follow(polls, engine, kind, job_id):
            yield ServerSentEvent(raw_data=dumps(body).decode(), event="progress")
    except NotFound:
        yield ServerSentEvent(raw_data="{}", event="gone")
