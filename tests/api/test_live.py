"""Events for open pages: at once the state, then each change, then the end."""

import asyncio
import json
from threading import Event
from typing import Any

from app.api.live import changes
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
        stream = changes(engine, Event(), run.id)
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
        async for event in changes(service.place.engine, closing, None):
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
