"""Downloads at the client's pace: no session is held, nothing is left behind, what fails is cut off."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.requests import ClientDisconnect

from app.api import downloads
from app.api.downloads import Download, DownloadResponse
from app.errors import Busy
from storage.database import make_engine
from tests.api.conftest import Service, refused
from tests.api.rows import ROWS, jsonl


def test_readers_that_do_not_read_leave_the_database_free(service: Service) -> None:
    rows = [{**row, "response": f"{n}" + " word" * 3000} for n in range(20) for row in ROWS]
    receipt = service.upload(jsonl(rows), run="large", duplicates="keep")
    batch, app = receipt["batches"][0]["id"], service.client.app
    engine = app.state.engine  # type: ignore[attr-defined]

    async def hold(never: asyncio.Event, begun: asyncio.Event) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                begun.set()
                await never.wait()

        async def receive() -> Any:
            await never.wait()
            return {"type": "http.disconnect"}

        path = f"/api/v1/batches/{batch}/rows"
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:8000")], "http_version": "1.1", "scheme": "http",
            "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1), "root_path": "", "app": app,
        }  # fmt: skip
        await app(scope, receive, send)

    async def watch() -> int:
        never, begun = asyncio.Event(), [asyncio.Event() for _ in range(12)]
        readers = [asyncio.ensure_future(hold(never, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        # Each file is written to its end, whoever reads it or not.
        async with asyncio.timeout(60):
            while engine.pool.checkedout():
                await asyncio.sleep(0.05)
        held = Download.open
        never.set()
        await asyncio.gather(*readers, return_exceptions=True)
        return held

    assert asyncio.run(watch()) == 12
    assert Download.open == 0
    assert service.client.get("/api/v1/runs").status_code == 200


def test_the_rows_are_whole(service: Service) -> None:
    batch = service.upload(run="whole")["batches"][0]["id"]
    lines = service.client.get(f"/api/v1/batches/{batch}/rows").text.splitlines()
    assert "_header" in json.loads(lines[0]) and len(lines) == 13


def blocks(make: Any, folder: Path) -> list[bytes]:
    async def read() -> list[bytes]:
        return [block async for block in Download(make, folder).blocks()]

    return asyncio.run(read())


def test_bytes_come_as_they_were_made_and_no_file_stays(tmp_path: Path) -> None:
    made = [bytes([n]) * (n * 9_973) for n in range(1, 60)]
    assert b"".join(blocks(lambda: iter(made), tmp_path)) == b"".join(made)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_in_the_middle_is_raised_after_what_came(tmp_path: Path) -> None:
    def make() -> Iterator[bytes]:
        yield b"first"
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        blocks(make, tmp_path)
    assert Download.open == 0


def test_a_reader_that_leaves_stops_the_writer(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> Iterator[bytes]:
        for number in range(10**9):
            made.append(number)
            yield b"x" * 1000

    async def leave() -> None:
        stream = Download(make, tmp_path).blocks()
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    assert 0 < len(made) < 10**9


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_a_reader_that_takes_nothing_is_cut_off(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "STALL_SECONDS", 0.1)

    async def never(_message: Any) -> None:
        await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def run() -> None:
        answer = DownloadResponse(lambda: iter([b"x"]), tmp_path, {}, "text/plain")
        await answer({"type": "http", "asgi": {"spec_version": version}}, receive, never)

    with pytest.raises(ClientDisconnect):
        asyncio.run(run())
    assert Download.open == 0


def test_too_many_are_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Download, "open", downloads.MOST)
    with pytest.raises(Busy, match="under way"):
        DownloadResponse(lambda: iter([b""]), tmp_path, {}, "text/plain")


def test_no_free_connection_is_503(service: Service) -> None:
    """Not a fault of the server's: whoever asks again later is answered."""
    url = service.place.settings.url
    small = make_engine(url, pool_size=1)
    small.pool._max_overflow, small.pool._timeout = 0, 0.05  # type: ignore[attr-defined] # of this pool alone
    app = service.client.app
    before = app.state.engine  # type: ignore[attr-defined]
    app.state.engine = small  # type: ignore[attr-defined]
    try:
        with small.connect():
            refused(service.client.get("/api/v1/runs"), 503, "does not answer or is busy")
            with pytest.raises(PoolTimeout):
                small.connect()
    finally:
        app.state.engine = before  # type: ignore[attr-defined]
        small.dispose()
