"""Downloads of any size that hold nothing of the database while a client reads.

A thread writes the file to the disk as fast as the database gives it and lets go of its session; the answer
is read from there at the client's pace. The file has no name and is gone with the answer, however it ends.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from app.errors import Busy

#: Downloads that are written at once; others wait for their turn without a session.
WRITERS = 4
#: Downloads of one process that are not read to their end. More are refused.
MOST = 200
#: A client that takes nothing for so long is cut off.
STALL_SECONDS = 300.0
BLOCK = 256 << 10

_writers = ThreadPoolExecutor(WRITERS, "download")


class Cancelled(Exception):
    """Nobody reads any more."""


class Download:
    """One file between its writer's thread and its reader on the event loop."""

    #: How many there are in this process.
    open = 0

    def __init__(self, make: Callable[[], Iterator[bytes]], folder: Path) -> None:
        self.make, self.folder = make, folder
        self.written = 0
        self.done = self.cancelled = False
        self.error: BaseException | None = None

    async def blocks(self) -> AsyncGenerator[bytes]:
        """The file, as it comes. Raises what making it raised."""
        self.loop, self.more = asyncio.get_running_loop(), asyncio.Event()
        Download.open += 1
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                writing = self.loop.run_in_executor(_writers, self.write, file.fileno())
                try:
                    async for block in self.read(file.fileno()):
                        yield block
                finally:
                    self.cancelled = True
                    await writing
        finally:
            Download.open -= 1

    def write(self, number: int) -> None:
        """In a thread of its own, with the only session there is."""
        try:
            with open(number, "wb", closefd=False) as out:
                for block in self.make():
                    if self.cancelled:
                        raise Cancelled
                    out.write(block)
                    out.flush()
                    self.written += len(block)
                    self.tell()
        except BaseException as error:
            self.error = error
        self.done = True
        self.tell()

    def tell(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.more.set)

    async def read(self, number: int) -> AsyncIterator[bytes]:
        place = 0
        while True:
            self.more.clear()
            done, written = self.done, self.written
            while place < written:
                block = await asyncio.to_thread(os.pread, number, min(BLOCK, written - place), place)
                place += len(block)
                yield block
            if done:
                if self.error is not None:
                    raise self.error
                return
            await self.more.wait()


class DownloadResponse(StreamingResponse):
    """What `make` gives, in an answer that holds no session. Raises Busy where too many go on already."""

    def __init__(
        self, make: Callable[[], Iterator[bytes]], folder: Path, headers: Mapping[str, str], media_type: str
    ) -> None:
        if Download.open >= MOST:
            raise Busy(
                f"{MOST} downloads are under way and not read to their end. Try again when some of them are."
            )
        super().__init__(Download(make, folder).blocks(), 200, headers, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), STALL_SECONDS)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError as error:
            raise ClientDisconnect from error
