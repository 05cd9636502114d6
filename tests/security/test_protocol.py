"""A request's head is bounded in size and time, on the real server socket."""

import socket
from collections.abc import Iterator
from threading import Thread

import pytest
import uvicorn

from app.main import create_app
from app.security import protocol
from app.security.protocol import BoundedProtocol
from app.settings import Settings


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("protocol") / "data")
    config = uvicorn.Config(create_app(settings), http=BoundedProtocol, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join()


def answer(address: tuple[str, int], *parts: bytes) -> bytes:
    """Everything that comes back until the server closes or has answered once."""
    with socket.create_connection(address, timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        return found


HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


def test_an_ordinary_request_is_answered(address: tuple[str, int]) -> None:
    assert answer(address, HEAD, b"\r\n").startswith(b"HTTP/1.1 200")
    large = b"X-Large: " + b"a" * 20_000 + b"\r\n"
    assert answer(address, HEAD, large, b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers",
    [
        [b"X-Large: " + b"a" * 100_000],
        [b"X-Large: ", *[b"a" * 65_536] * 64],
        [b"X-%d: a\r\n" % number for number in range(1000)],
        [b"X-%d: %s\r\n" % (number, b"a" * 900) for number in range(150)],
    ],
    ids=["one long", "one endless", "many", "together"],
)
def test_a_head_that_is_too_large_is_refused(address: tuple[str, int], headers: list[bytes]) -> None:
    said = answer(address, HEAD, *headers, b"\r\n\r\n")
    # The server may close before everything was sent; then the answer can be lost on the way.
    assert said == b"" or said.startswith(b"HTTP/1.1 431")
    assert b" 200 " not in said[:20]


def test_the_refusal_says_what_to_do(address: tuple[str, int]) -> None:
    said = answer(address, HEAD + b"X: a\r\n" * 201 + b"\r\n")
    assert said.startswith(b"HTTP/1.1 431") and b"Send fewer or shorter ones." in said


def test_a_body_is_not_counted_as_head(address: tuple[str, int]) -> None:
    body = b'{"title": "' + b"a" * 200_000 + b'"}'
    head = (
        b"POST /api/v1/dashboards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    assert answer(address, head, body).startswith(b"HTTP/1.1 422")


def test_a_head_that_does_not_come_is_not_waited_for(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    assert answer(address, HEAD) == b""
    assert answer(address) == b""
