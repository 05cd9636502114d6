"""The progress of a job as server-sent events: one event each time it changed, the last when it has ended."""

from collections.abc import AsyncIterator
from threading import Event

from fastapi.sse import ServerSentEvent
from sqlalchemy import Engine

from app.errors import NotFound
from app.jobs import Kind, follow
from app.responses import dumps


async def events_of(
    engine: Engine, kind: Kind, job_id: str, closing: Event
) -> AsyncIterator[ServerSentEvent]:
    """`progress` events; `gone` when the job was deleted meanwhile, as the answer has begun by then."""
    try:
        async for body in follow(engine, kind, job_id, closing):
            yield ServerSentEvent(raw_data=dumps(body).decode(), event="progress")
    except NotFound:
        yield ServerSentEvent(raw_data="{}", event="gone")
