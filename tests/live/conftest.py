"""A live server for what follows a run from outside."""

import socket
from collections.abc import Iterator

import pytest

from tests.acceptance.processes import Server, serving


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("live") / "data", {}) as server:
        yield server


@pytest.fixture
def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
