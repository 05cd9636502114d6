"""Events for open pages: at once the state, then each change, then the end."""

import asyncio
import json
from threading import Event
from typing import Any

from sqlalchemy import event as sqlalchemy_event

from app.api.live import changes
from app.shared_polls import SharedPolls
from storage import runs
from storage.database import read, write
from tests.api.conftest import Service, refused
from tests.api.rows import ROWS, jsonl


def said(event: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(event.raw_data)
    return {"event": event.event, **body}


def test_a_run_says_each_batch_and_its_end(service: Service) -> None:
    service.upload(run="live")
    engine = service.place.engine
    with read(engine) as session:
        run = runs.find(session, "live")
        assert run is not None

    async def follow() -> list[dict[str, Any]]:
        stream = changes(SharedPolls(Event()), engine, run.id)
        seen = [said(await anext(stream))]
        await asyncio.to_thread(service.upload, jsonl(ROWS[:4]), run="live", step=9)
        seen.append(said(await anext(stream)))
        with write(engine) as session:
            runs.delete(session, run.id)
        seen.append(said(await anext(stream)))
        return [*seen, *[said(event) async for event in stream]]

    first, second, last = asyncio.run(follow())
    assert (first["event"], first["batches"]) == ("changed", 1)
    assert (second["event"], second["batches"], second["last_step"]) == ("changed", 2, 9)
    assert first["version"] != second["version"]
    assert last == {"event": "gone"}


def test_the_stream_ends_with_the_server(service: Service) -> None:
    closing = Event()

    async def follow() -> list[str]:
        kinds = []
        async for event in changes(SharedPolls(closing), service.place.engine, None):
            kinds.append(event.event or "")
            closing.set()
        return kinds

    assert asyncio.run(follow()) == ["changed"]


def test_the_page_has_the_version_that_the_events_have(service: Service) -> None:
    service.upload(run="live")
    with read(service.place.engine) as session:
        version = runs.version(session)
    assert f'data-version="{version}"' in service.client.get("/").text


def test_a_run_that_is_not_there_has_no_events(refusing: Service) -> None:
    refused(refusing.client.get("/api/v1/runs/none/events"), 404, "no run")


def test_many_streams_ask_the_database_once_a_second(service: Service) -> None:
    service.upload(run="live")
    engine = service.place.engine
    with read(engine) as session:
        run = runs.find(session, "live")
        assert run is not None
    asked: list[str] = []
    sqlalchemy_event.listen(engine, "begin", lambda _connection: asked.append(""))

    async def follow() -> int:
        polls = SharedPolls(Event())
        streams = [changes(polls, engine, run.id) for _ in range(200)]
        firsts = await asyncio.gather(*(anext(stream) for stream in streams))
        assert len({first.id for first in firsts}) == 1
        asked.clear()
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await asyncio.sleep(2.5)
        looked = len(asked)
        await asyncio.to_thread(service.upload, jsonl(ROWS[:4]), run="live", step=9)
        assert len({said(await one)["batches"] for one in waiting}) == 1
        for stream in streams:
            await stream.aclose()
        assert polls.polls == {}
        return looked

    assert 1 <= asyncio.run(follow()) <= 4


def test_what_fails_is_told_to_everyone_and_asked_anew() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        if len(asked) == 1:
            raise ValueError("away")
        return len(asked)

    async def follow() -> list[Any]:
        polls = SharedPolls(Event())
        first, second = (polls.results("key", ask, 0.01) for _ in range(2))
        told = await asyncio.gather(anext(first), anext(second), return_exceptions=True)
        third = polls.results("key", ask, 0.01)
        found = [*told, await anext(third)]
        await third.aclose()
        return found

    one, other, later = asyncio.run(follow())
    assert isinstance(one, ValueError) and isinstance(other, ValueError) and later == 2
