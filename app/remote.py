"""Another process's requests to a Vantage server over HTTP: files sent as they are read, answers streamed."""

import http.client
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from app.errors import AppError, BadRequest, Busy

API = "/api/v1"
BLOCK = 1 << 20
#: Answers that another try may change: at work, too many, a login that somebody can mend.
PASSING = frozenset((401, 403, 408, 409, 425, 429))


class Away(Busy):
    """The server does not answer, or cannot now."""


class Changed(AppError):
    """A file is not any more what it was when its sending began."""


class Refused(AppError):
    """`answered`: the status."""

    title = "The server says no"

    def __init__(self, detail: str, answered: int) -> None:
        super().__init__(detail)
        self.answered = answered


@dataclass(frozen=True, slots=True)
class Remote:
    """A server. `token` goes along with every request."""

    url: str
    token: str | None = None
    timeout: float = 120.0

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at /api/v1`path`. Raises Away, Refused."""
        with self.answer("GET", path, query) as answer:
            return json.loads(answer.read())

    def post(self, path: str, content: Any, *, headers: Mapping[str, str] | None = None, **query: Any) -> Any:
        """The JSON that answers the JSON `content`. Raises Away, Refused."""
        body = json.dumps(content).encode()
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        with self.answer("POST", path, query, sent, [body]) as answer:
            return json.loads(answer.read())

    def blocks(self, path: str, **query: Any) -> Iterator[bytes]:
        """The bytes at /api/v1`path`, as they come. Raises Away, Refused."""
        with self.answer("GET", path, query) as answer:
            while block := answer.read(BLOCK):
                yield block

    def upload(self, files: Sequence[tuple[Path, str]], **query: Any) -> dict[str, Any]:
        """Hand over files with the names that they are shown under: the receipt so far.

        Raises Away, Refused, Changed, OSError (a file is not there).
        """
        if len(files) == 1:
            path, name = files[0]
            query = {"filename": name, **query}
            size = path.stat().st_size
            kind, body = "application/octet-stream", read(path, size)
        else:
            size, kind, body = form(files)
        headers = {"Content-Type": kind, "Content-Length": str(size)}
        with self.answer("POST", "/uploads", query, headers, body) as answer:
            receipt: dict[str, Any] = json.loads(answer.read())
            return receipt

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Iterator[http.client.HTTPResponse]:
        parts = address(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout)
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{parts.path.rstrip('/')}{API}{quote(path)}" + (f"?{urlencode(given)}" if given else "")
        sent = {"Accept": "*/*", **(headers or {})}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise failure(answer)
            yield answer
        except (OSError, http.client.HTTPException) as error:
            raise Away(f"{self.url} does not answer ({type(error).__name__}). Is the server there?") from None
        finally:
            connection.close()


def address(url: str) -> Any:
    """Raises BadRequest for what is no address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequest(f"{url!r} is not the address of a server. Give it as http://host:port")
    return parts


def failure(answer: http.client.HTTPResponse) -> AppError:
    said = f"{answer.status} {answer.reason}"
    try:
        told = json.loads(answer.read(BLOCK))
        said = str(told.get("detail") or told.get("title") or said)
    except (ValueError, AttributeError):
        pass
    away = answer.status in PASSING or answer.status >= 500
    return Away(said) if away else Refused(said, answer.status)


def read(path: Path, size: int, start: int = 0) -> Iterator[bytes]:
    """`size` bytes of the file from `start` on, which must be there. Raises Changed."""
    left = size
    try:
        with open(path, "rb") as file:
            file.seek(start)
            while left and (block := file.read(min(BLOCK, left))):
                left -= len(block)
                yield block
    except OSError as error:
        raise Changed(f"{path.name} cannot be read ({error.strerror}).") from None
    if left:
        raise Changed(f"{path.name} became shorter while it was sent.")


def form(files: Sequence[tuple[Path, str]]) -> tuple[int, str, Iterator[bytes]]:
    """(size, Content-Type, body) of a form with the files under the field `file`."""
    mark = uuid.uuid4().hex
    heads = []
    for _, name in files:
        shown = name.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", " ")
        said = f'Content-Disposition: form-data; name="file"; filename="{shown}"'
        heads.append(f"--{mark}\r\n{said}\r\nContent-Type: application/octet-stream\r\n\r\n".encode())
    end = f"--{mark}--\r\n".encode()
    sizes = [os.stat(path).st_size for path, _ in files]
    size = sum(sizes) + sum(len(head) + 2 for head in heads)

    def body() -> Iterator[bytes]:
        for (path, _), head, own in zip(files, heads, sizes, strict=True):
            yield head
            yield from read(path, own)
            yield b"\r\n"
        yield end

    return size + len(end), f"multipart/form-data; boundary={mark}", body()
