"""Server-sent events for open pages: a batch came in, or went."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy import Engine

from app.api.lookup import RunKey, run_of
from app.api.strict import StrictRoute
from app.deps import EngineDep, PollsDep, Reader
from app.responses import dumps
from app.shared_polls import SharedPolls
from storage import runs
from storage.database import read

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=StrictRoute)

SECONDS = 1.0  # between looks


def existing(session: Reader, run: RunKey) -> str:
    """Raises NotFound before an event stream has begun."""
    return run_of(session, run).id


@router.get("/runs/{run:path}/events", response_class=EventSourceResponse)
async def run_events(
    engine: EngineDep, polls: PollsDep, run_id: Annotated[str, Depends(existing)]
) -> AsyncIterator[ServerSentEvent]:
    """Follow a run: a server-sent `changed` event at once and whenever a batch came in or went, with the
    `version` and what the run holds; `gone` when the run was deleted."""
    async for event in changes(polls, engine, run_id):
        yield event


@router.get("/events", response_class=EventSourceResponse)
async def all_events(engine: EngineDep, polls: PollsDep) -> AsyncIterator[ServerSentEvent]:
    """Follow every run: a server-sent `changed` event at once and whenever a batch came in or went."""
    async for event in changes(polls, engine, None):
        yield event


async def changes(polls: SharedPolls, engine: Engine, run_id: str | None) -> AsyncGenerator[ServerSentEvent]:
    """Ends when the server goes down: who listens connects again, and sees by the version what it missed."""
    seen: str | None = None
    async with aclosing(polls.results("runs", partial(newest_version, engine), SECONDS)) as versions:
        async for version in versions:
            state = await state_at(polls, engine, run_id, version)
            if state is None:
                yield ServerSentEvent(raw_data="{}", event="gone")
                return
            if state["version"] != seen:
                seen = state["version"]
                yield ServerSentEvent(raw_data=dumps(state).decode(), event="changed", id=seen)


async def state_at(
    polls: SharedPolls, engine: Engine, run_id: str | None, version: str
) -> dict[str, Any] | None:
    """`state_of`, read once for everyone who follows the run."""
    key = ("run", run_id, version)
    async with aclosing(polls.results(key, partial(state_of, engine, run_id), SECONDS)) as states:
        async for state in states:
            found: dict[str, Any] | None = state
            return found
    return None


def newest_version(engine: Engine) -> str:
    """Another text whenever a batch or run came or went."""
    with read(engine) as session:
        return f"{runs.version(session)}-{runs.count(session)}"


def state_of(engine: Engine, run_id: str | None) -> dict[str, Any] | None:
    """What an event says; None where the run is not there any more."""
    with read(engine) as session:
        said: dict[str, Any] = {"version": runs.version(session, run_id)}
        if run_id is None:
            return said
        held = runs.row(session, run_id)
        if held is None:
            return None
        names = ("batches", "rollouts", "tokens", "first_step", "last_step")
        return said | {name: getattr(held, name) for name in names}
