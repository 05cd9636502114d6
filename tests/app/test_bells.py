"""The bell: whoever listens hears it, whoever left does not stop it, and waiting ends when it rings."""

import asyncio
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from app.api import waiting
from app.bells import PIPE_BYTES, READY, SUFFIX, Bell, Notices, Pipes, listening
from app.jobs import ended_text
from app.rousing import THREAD, rousable
from app.waiters import Waiters
from storage import estimates, runs
from storage.database import make_engine, write
from tests.builders import make_batch

LONG = 60.0


@pytest.fixture
def bell(engine: Engine, tmp_path: Path) -> Iterator[Bell]:
    """The bell of a database of each kind."""
    if engine.dialect.name == "sqlite":
        yield Pipes(tmp_path / "bells")
    else:
        found = Notices(make_engine(engine.url.render_as_string(hide_password=False), pool_size=1))
        yield found
        found.close()


def listener(stack: ExitStack, bell: Bell) -> "queue.Queue[str]":
    """What is heard from now on."""
    heard: queue.Queue[str] = queue.Queue()
    stack.enter_context(listening(bell, heard.put))
    assert until(heard, READY) == []
    return heard


def until(heard: "queue.Queue[str]", text: str) -> list[str]:
    """What is heard before `text`."""
    before: list[str] = []
    while (found := heard.get(timeout=LONG)) != text:
        before.append(found)
    return before


def test_everyone_hears_what_is_rung(bell: Bell) -> None:
    with ExitStack() as stack:
        listeners = [listener(stack, bell) for _ in range(3)]
        bell.ring("queued estimate")
        bell.ring("end")
        assert all(until(heard, "end") == ["queued estimate"] for heard in listeners)


def test_a_transaction_rings_once_it_is_committed(bell: Bell, engine: Engine) -> None:
    with ExitStack() as stack:
        heard = listener(stack, bell)
        with pytest.raises(RuntimeError, match="stop"), write(engine) as session:
            runs.get_or_create(session, "lost")
            bell.ring_after(session, "never")
            raise RuntimeError("stop")
        with write(engine) as session:
            runs.get_or_create(session, "kept")
            bell.ring_after(session, "committed")
            bell.ring("not yet")
            assert until(heard, "not yet") == []
        bell.ring("end")
        assert until(heard, "end") == ["committed"]


def test_pipes_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    bell = Pipes(tmp_path / "bells")
    bell.ring("nobody is there, not even the folder")
    with ExitStack() as stack:
        heard = listener(stack, bell)
        left = bell.folder / f"left{SUFFIX}"
        os.mkfifo(left)
        bell.ring("end")
        assert until(heard, "end") == [] and not left.exists()
    assert list(bell.folder.iterdir()) == []


def test_who_rings_waits_for_nobody(tmp_path: Path) -> None:
    """A listener that is busy has its pipe filled, and is none the worse for it."""
    bell, go_on = Pipes(tmp_path / "bells"), threading.Event()
    heard: queue.Queue[str] = queue.Queue()

    def slow(text: str) -> None:
        heard.put(text)
        assert go_on.wait(LONG)

    with listening(bell, slow):
        assert heard.get(timeout=LONG) == READY
        for _ in range(PIPE_BYTES // 100 + 2):
            bell.ring("x" * 100)
        go_on.set()
        until(heard, "x" * 100)


def waiter(event: threading.Event, name: str, said: "queue.Queue[bool]", times: int) -> threading.Thread:
    def run() -> None:
        for _ in range(times):
            said.put(event.wait(LONG))

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread


def test_a_queue_is_roused_without_ending_it() -> None:
    event, said, others = threading.Event(), queue.Queue[bool](), queue.Queue[bool]()
    rouse = rousable([event])
    rouse("estimate")  # before it waits: it looks again at once
    threads = [waiter(event, f"{THREAD}estimate", said, 3), waiter(event, f"{THREAD}ingest", others, 1)]
    assert said.get(timeout=LONG) is False
    rouse("estimate")
    assert said.get(timeout=LONG) is False and others.empty()
    event.set()
    assert said.get(timeout=LONG) is True and others.get(timeout=LONG) is True
    for thread in threads:
        thread.join()


def test_an_event_still_times_out() -> None:
    event = threading.Event()
    rousable([event])
    assert event.wait(0.01) is False


def test_a_waiting_request_is_woken(sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FIRST_PAUSE", LONG)
    monkeypatch.setattr(waiting, "LONGEST_PAUSE", LONG)
    batch = make_batch(sqlite_engine)
    with write(sqlite_engine) as session:
        row, _ = estimates.request(session, batch.id, {}, "hash", estimator="gae")
        estimate = row.id

    async def asked() -> str:
        waiters = Waiters(asyncio.get_running_loop())
        looking = asyncio.create_task(
            waiting.ended(sqlite_engine, "estimate", estimate, LONG, threading.Event(), waiters)
        )
        while not waiters.waiting:
            await asyncio.sleep(0)
        with write(sqlite_engine) as session:
            estimates.finish(session, estimate)
        ring = threading.Thread(target=waiters.hear, args=(ended_text("estimate", estimate),))
        ring.start()
        state = await asyncio.wait_for(looking, LONG / 2)
        ring.join()
        assert waiters.waiting == {}
        return state

    assert asyncio.run(asked()) == "succeeded"
