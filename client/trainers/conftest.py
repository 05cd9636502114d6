"""A live server for the real trainers; run by `make test-trainers`, in a virtual environment of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import Server, serving
from vantage_client import Client, Recorder


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("trainers") / "data", {}) as server:
        yield server


@pytest.fixture
def client(live: Server) -> Client:
    return Client(live.url)


@pytest.fixture
def recorder(live: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Recorder]:
    with Recorder(live.url, request.node.name, spool=tmp_path / "spool") as made:
        yield made
