"""How long a request's head may be and how long it may take: the parser of uvicorn sets no limit to either.

A head is the request line and the headers. One that is too long is answered 431, a connection whose head
does not come in time is closed: half-sent requests would otherwise hold memory and sockets for ever.
"""

from asyncio import TimerHandle, Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 200
HEAD_SECONDS = 30.0

TOO_LONG = (
    f"The request's headers are too large: at most {MAX_HEAD_BYTES >> 10} KiB and {MAX_HEADERS} headers are "
    "taken. Send fewer or shorter ones."
)


class HeadTooLong(Exception):
    """Stops the parser; the connection then gets 431."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a bounded head."""

    #: Bytes received while a head is being read, and bytes and number of the headers that are complete.
    received = kept = count = 0
    in_head = False
    timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # uvicorn narrows asyncio's argument, too
        super().connection_made(transport)
        self.begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.received += len(data) if self.in_head else 0
        super().data_received(data)
        if self.in_head and self.received > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self.in_head:
            self.begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.kept += len(name) + len(value)
        self.count += 1
        if self.kept > MAX_HEAD_BYTES or self.count > MAX_HEADERS:
            raise HeadTooLong
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.end_head()

    def begin_head(self) -> None:
        self.received = self.kept = self.count = 0
        self.in_head = True
        self.timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def end_head(self) -> None:
        self.in_head = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def send_400_response(self, msg: str) -> None:
        too_long = max(self.kept, self.received) > MAX_HEAD_BYTES or self.count > MAX_HEADERS
        if not (self.in_head and too_long):
            super().send_400_response(msg)
            return
        text = TOO_LONG.encode()
        head = (
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(text)
        )
        self.transport.write(head + text)
        self.transport.close()
