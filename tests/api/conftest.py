"""The real application on a fresh database of each kind, its jobs done in the test's own process when it
says so."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from httpx2 import Response
from starlette.testclient import TestClient

from app.jobs import prepare
from app.main import create_app
from app.settings import Settings
from tests import databases
from tests.api.rows import ROWS, jsonl
from tests.working import Place, make_template

BASE = "http://127.0.0.1:8000"

# Errors in one line: the default prints every local of every frame, for seconds.
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])


@dataclass(frozen=True, slots=True)
class Service:
    """The application, asked by a client; `work` does every queued job."""

    client: TestClient
    place: Place

    def get(self, path: str, status: int = 200, **asked: Any) -> Any:
        """The JSON at /api/v1`path`, which must be answered with `status`."""
        answer = self.client.get(f"/api/v1{path}", **asked)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, **asked: Any) -> Response:
        answer: Response = self.client.post(f"/api/v1{path}", **asked)
        return answer

    def work(self) -> None:
        self.place.work()

    def upload(self, content: bytes = b"", **query: Any) -> dict[str, Any]:
        """Upload, read, compute the default estimates: the receipt."""
        answer = self.post(
            "/uploads", content=content or jsonl(ROWS), params={"filename": "rows.jsonl", **query}
        )
        assert answer.status_code == 202, answer.text
        self.work()
        receipt: dict[str, Any] = self.get(f"/uploads/{answer.json()['id']}")
        assert receipt["state"] == "succeeded", receipt
        return receipt

    def estimate(self, batch: str, **body: Any) -> dict[str, Any]:
        """A computed estimate."""
        answer = self.post(f"/batches/{batch}/estimates", json=body)
        assert answer.status_code in (200, 201, 202), answer.text
        self.work()
        made: dict[str, Any] = self.get(f"/estimates/{answer.json()['id']}")
        assert made["state"] == "succeeded", made
        return made


def refused(answer: Response, status: int, *words: str) -> dict[str, Any]:
    """The problem details of a refusal, which must say these words and nothing of the server."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert {"type", "title", "detail"} <= body.keys()
    for word in words:
        assert word.lower() in body["detail"].lower(), body["detail"]
    assert "Traceback" not in answer.text and "site-packages" not in answer.text
    return body


@pytest.fixture(scope="package")
def data_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("data-template"))


def serving(settings: Settings) -> Iterator[Service]:
    with TestClient(create_app(settings), base_url=BASE) as client:
        state = client.app.state  # type: ignore[attr-defined]
        yield Service(client, Place(settings, state.engine, state.jobs))


@pytest.fixture
def service(tmp_path: Path, data_template: Path) -> Iterator[Service]:
    """On a fresh SQLite database."""
    shutil.copytree(data_template, tmp_path / "data")
    yield from serving(Settings(data_dir=tmp_path / "data"))


@pytest.fixture(scope="package")
def refusing(tmp_path_factory: pytest.TempPathFactory, data_template: Path) -> Iterator[Service]:
    """For requests that change nothing."""
    folder = tmp_path_factory.mktemp("refusing")
    shutil.copytree(data_template, folder / "data")
    yield from serving(Settings(data_dir=folder / "data"))


@pytest.fixture(scope="package", params=databases.KINDS)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data_template: Path
) -> Iterator[Service]:
    """On each kind of database, the rows of `tests.api.rows` read and estimated. Not to be changed."""
    folder = tmp_path_factory.mktemp("filled")
    with ExitStack() as stack:
        if request.param == "sqlite":
            shutil.copytree(data_template, folder / "data")
            settings = Settings(data_dir=folder / "data")
        else:
            url = stack.enter_context(databases.postgres_copy(request.getfixturevalue("postgres_url")))
            settings = Settings(data_dir=folder / "data", database_url=url)
            prepare(settings)
        for service in serving(settings):
            service.upload(run="rest")
            yield service


@pytest.fixture
def batch(filled: Service) -> str:
    """Id of the batch of `filled`."""
    return str(filled.get("/batches")["items"][0]["id"])
