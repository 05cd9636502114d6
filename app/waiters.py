"""Requests of this web process that wait for a job's end, woken by the bell when it has ended."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Waiters:
    """`hear` may be called from any thread; everything else from that of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: dict[str, set[asyncio.Event]] = {}

    def hear(self, text: str) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake, text)

    def _wake(self, text: str) -> None:
        for event in self.waiting.get(text, ()):
            event.set()

    @contextmanager
    def expecting(self, text: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever `text` is rung until the block ends."""
        event = asyncio.Event()
        self.waiting.setdefault(text, set()).add(event)
        try:
            yield event
        finally:
            others = self.waiting[text]
            others.remove(event)
            if not others:
                del self.waiting[text]
