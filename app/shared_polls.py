"""One look at the database for all event streams that wait for the same thing.

Two hundred open pages ask the database once a second, not two hundred times, and hold no thread meanwhile.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from threading import Event
from typing import Any


class Poll:
    """What is asked again and again, as long as somebody waits for its next change."""

    def __init__(self) -> None:
        self.readers = 0
        self.number = 0
        self.result: Any = None
        self.error: Exception | None = None
        self.ended = False
        self.changed = asyncio.Condition()
        self.task: asyncio.Task[None] | None = None

    async def run(
        self, ask: Callable[[], Any], seconds: float, mark: Callable[[Any], Any], closing: Event
    ) -> None:
        """Asks in a thread until `closing` is set; `mark`: what has to differ for a result to be new."""
        seen: Any = None
        while not closing.is_set():
            try:
                result = await asyncio.to_thread(ask)
            except Exception as error:  # goes to everyone who waits
                await self._tell(error=error)
                return
            if self.number == 0 or mark(result) != seen:
                seen = mark(result)
                await self._tell(result)
            await asyncio.sleep(seconds)
        await self._tell(self.result, ended=True)

    async def _tell(self, result: Any = None, error: Exception | None = None, ended: bool = False) -> None:
        async with self.changed:
            self.result, self.error, self.ended = result, error, ended or error is not None
            self.number += 1
            self.changed.notify_all()


class SharedPolls:
    """The polls of one event loop. `closing` ends them all: the server is going down."""

    def __init__(self, closing: Event) -> None:
        self.closing = closing
        self.polls: dict[Hashable, Poll] = {}

    async def results(
        self,
        key: Hashable,
        ask: Callable[[], Any],
        seconds: float,
        mark: Callable[[Any], Any] = lambda result: result,
    ) -> AsyncGenerator[Any]:
        """What `ask` gives now, and whenever its `mark` changes; everyone with the same `key` shares one
        poll. Raises what `ask` raises."""
        poll = self.polls.get(key)
        if poll is None or poll.ended:
            poll = self.polls[key] = Poll()
            poll.task = asyncio.create_task(poll.run(ask, seconds, mark, self.closing))
        poll.readers += 1
        number = 0
        try:
            while True:
                async with poll.changed:
                    while poll.number == number:
                        await poll.changed.wait()
                    number, result, error, ended = poll.number, poll.result, poll.error, poll.ended
                if error is not None:
                    raise error
                if ended:
                    return
                yield result
        finally:
            poll.readers -= 1
            if poll.readers == 0:
                self._forget(key, poll)

    def _forget(self, key: Hashable, poll: Poll) -> None:
        if poll.task is not None:
            poll.task.cancel()
        if self.polls.get(key) is poll:
            del self.polls[key]
