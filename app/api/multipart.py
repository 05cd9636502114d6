"""A multipart/form-data body as it arrives: its files streamed one after the other, its text fields
collected.

The framework's own form parsing would write each file to a temporary place first, and to the spool a second
time.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.errors import BadRequest, Unprocessable

MAX_FILES = 10_000
MAX_FIELDS = 32
MAX_FIELD_BYTES = 4096

TORN = "The multipart body cannot be read: {}. Send the file as field 'file', or as the raw request body."

#: Takes a file's name and its bytes as they come.
TakeFile = Callable[[str, AsyncIterator[bytes]], Awaitable[None]]


@dataclass
class Part:
    name: str
    filename: str | None


@dataclass
class Events:
    """What the parser found: a Part, its data, None at its end."""

    queue: deque[Part | bytes | None] = field(default_factory=deque)
    header: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    disposition: bytes = b""
    complete: bool = False

    def part_begin(self) -> None:
        self.disposition = b""

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self.header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def header_end(self) -> None:
        if bytes(self.header).lower() == b"content-disposition":
            self.disposition = bytes(self.value)
        self.header.clear()
        self.value.clear()

    def headers_finished(self) -> None:
        _, options = parse_options_header(self.disposition)
        if b"name" not in options:
            raise FormParserError("a part has no name")
        filename = options.get(b"filename")
        text = None if filename is None else filename.decode("utf-8", "replace")
        self.queue.append(Part(options[b"name"].decode("utf-8", "replace"), text))

    def part_data(self, data: bytes, start: int, end: int) -> None:
        self.queue.append(data[start:end])

    def part_end(self) -> None:
        self.queue.append(None)

    def end(self) -> None:
        self.complete = True


def parser_of(content_type: str, events: Events) -> MultipartParser:
    """Raises BadRequest where the Content-Type names no usable boundary."""
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise BadRequest(TORN.format("its Content-Type names no boundary"))
    try:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": events.part_begin,
                "on_header_field": events.header_field,
                "on_header_value": events.header_value,
                "on_header_end": events.header_end,
                "on_headers_finished": events.headers_finished,
                "on_part_data": events.part_data,
                "on_part_end": events.part_end,
                "on_end": events.end,
            },
        )
    except FormParserError as error:
        raise BadRequest(TORN.format(str(error).lower())) from error


async def parsed(content_type: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[Part | bytes | None]:
    """The parser's events in order. Raises BadRequest where the body is torn."""
    events = Events()
    parser = parser_of(content_type, events)
    try:
        async for chunk in chunks:
            parser.write(chunk)
            while events.queue:
                yield events.queue.popleft()
    except FormParserError as error:
        raise BadRequest(TORN.format(str(error).lower())) from error
    if not events.complete:
        raise BadRequest(TORN.format("it ends before its last boundary"))


async def receive(content_type: str, chunks: AsyncIterator[bytes], take: TakeFile) -> dict[str, str]:
    """Hand each file to `take` while it arrives; the text fields at the end."""
    events = parsed(content_type, chunks)
    fields: dict[str, str] = {}
    files = 0
    async for event in events:
        if not isinstance(event, Part):
            continue
        if event.filename is None and event.name != "file":
            fields[event.name] = await text_of(event.name, content_of(events))
            if len(fields) > MAX_FIELDS:
                raise Unprocessable(f"The form has more than {MAX_FIELDS} text fields.")
        elif event.name != "file":
            raise Unprocessable(
                f"The form field {event.name!r} holds a file. Files are taken in the field 'file'."
            )
        elif event.filename == "":  # a form whose file input was left empty
            await text_of(event.name, content_of(events))
        else:
            files += 1
            if files > MAX_FILES:
                raise Unprocessable(
                    f"The form has more than {MAX_FILES} files. Send them as a zip, or in parts."
                )
            await take(event.filename or "upload", content_of(events))
    return fields


async def content_of(events: AsyncIterator[Part | bytes | None]) -> AsyncIterator[bytes]:
    """The bytes of the part that has just begun."""
    async for event in events:
        if event is None:
            return
        assert isinstance(event, bytes)
        yield event


async def text_of(name: str, content: AsyncIterator[bytes]) -> str:
    data = b""
    async for chunk in content:
        data += chunk
        if len(data) > MAX_FIELD_BYTES:
            raise Unprocessable(f"The form field {name!r} is longer than {MAX_FIELD_BYTES} bytes.")
    return data.decode("utf-8", "replace")
