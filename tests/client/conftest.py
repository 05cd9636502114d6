"""A live server for the client, and places where nothing listens."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.processes import Server, serving
from vantage_client import Client, Recorder


@dataclass(frozen=True)
class Site:
    """A server that runs for all tests of the package, and a folder for steps on their way to it."""

    server: Server
    spool: Path

    def recorder(self, run: str, **options: object) -> Recorder:
        return Recorder(self.server.url, run, **{"spool": self.spool, **options})  # type: ignore[arg-type] # options of any type

    @property
    def client(self) -> Client:
        return Client(self.server.url)


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("client") / "data", {}) as server:
        yield server


@pytest.fixture
def site(live: Server, tmp_path: Path) -> Site:
    return Site(live, tmp_path / "spool")


@pytest.fixture
def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
