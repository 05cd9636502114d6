"""What a caller is told when something fails or cannot be taken, and what it is never told."""

from typing import Any

import pytest
from fastapi import APIRouter
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from storage.arrays import Corrupt
from tests.api.conftest import BASE, refused

FAILING = APIRouter(prefix="/api/v1/failing")


@FAILING.get("/unforeseen")
def unforeseen() -> None:
    raise RuntimeError("a secret at /srv/secret/path")


@FAILING.get("/away")
def away() -> None:
    raise OperationalError("SELECT secret", {}, Exception("locked"))


@FAILING.get("/corrupt")
def corrupt() -> None:
    raise Corrupt("b", "values", 0, 0, "checksum")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    app = create_app(Settings(data_dir=tmp_path_factory.mktemp("failing")))
    app.include_router(FAILING)
    with TestClient(app, base_url=BASE) as client:
        yield client


def test_an_unforeseen_error_says_where_to_look_and_nothing_else(failing: TestClient) -> None:
    answer = failing.get("/api/v1/failing/unforeseen", headers={"X-Request-Id": "find-me-1"})
    body = refused(answer, 500, "find-me-1")
    assert body["request_id"] == answer.headers["x-request-id"] == "find-me-1"
    assert "secret" not in answer.text and "RuntimeError" not in answer.text
    assert answer.headers["content-security-policy"]


def test_a_database_that_is_away_is_503_with_a_time_to_come_back(failing: TestClient) -> None:
    answer = failing.get("/api/v1/failing/away")
    refused(answer, 503, "try again")
    assert answer.headers["retry-after"] == "5"
    assert "SELECT" not in answer.text


def test_damaged_data_say_how_to_repair_them(failing: TestClient) -> None:
    refused(failing.get("/api/v1/failing/corrupt"), 500, "vantage check")


def test_a_person_gets_a_page_and_a_program_gets_json(failing: TestClient) -> None:
    page = failing.get("/nothing/here", headers={"Accept": "text/html"})
    assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
    refused(failing.get("/nothing/here.json", headers={"Accept": "text/html"}), 404)
    refused(failing.get("/api/v1/nothing", headers={"Accept": "text/html"}), 404, "openapi.json")
    refused(failing.get("/nothing/here"), 404)


def test_request_ids_are_given_and_taken_only_where_they_are_plain(failing: TestClient) -> None:
    assert len(failing.get("/healthz").headers["x-request-id"]) == 16
    assert (
        failing.get("/healthz", headers={"X-Request-Id": "abc-12345"}).headers["x-request-id"] == "abc-12345"
    )
    assert failing.get("/healthz", headers={"X-Request-Id": "a b\\n" * 30}).headers["x-request-id"] != "a b"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"title": NaN}', "application/json", 400),
        (b'{"title": "\\ud800"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"title": "x"', "application/json", 400),
        (b'"text"', "application/json", 422),
        (b"", "application/json", 422),
        (b'{"title": "x"}', "text/plain", 422),
        (b"title=x", "application/x-www-form-urlencoded", 422),
        (b"\xff\xfe", "application/json", 400),
        (b'{"title": 1e999}', "application/json", 400),
        (b'{"title": ' + b"9" * 5000 + b"}", "application/json", 400),
    ],
)
def test_bodies_that_are_no_json_of_ours(failing: TestClient, content: bytes, kind: str, status: int) -> None:
    for path in ("/api/v1/dashboards", "/api/v1/batches/x/estimates"):
        answer = failing.post(path, content=content, headers={"Content-Type": kind})
        body = refused(answer, status)
        assert body["problems"][0]["message"]


def test_bodies_have_a_limit_that_is_named(failing: TestClient) -> None:
    body = b'{"title": "' + b"x" * (1 << 20) + b'"}'
    kind = {"Content-Type": "application/json"}
    refused(failing.post("/api/v1/dashboards", content=body, headers=kind), 413, "VANTAGE_MAX_BODY_BYTES")
    chunks = [body[:600_000], body[600_000:]]
    refused(
        failing.post("/api/v1/dashboards", content=iter(chunks), headers=kind), 413, "VANTAGE_MAX_BODY_BYTES"
    )
    keyed = {**kind, "Idempotency-Key": "big"}
    refused(
        failing.post("/api/v1/dashboards", content=iter(chunks), headers=keyed), 413, "VANTAGE_MAX_BODY_BYTES"
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/runs"),
        ("POST", "/runs"),
        ("DELETE", "/batches"),
        ("PATCH", "/estimates/x"),
        ("POST", "/figures"),
    ],
)
def test_methods_that_are_not_taken(failing: TestClient, method: str, path: str) -> None:
    answer = failing.request(method, f"/api/v1{path}")
    refused(answer, 405, "method")
    assert answer.headers["allow"]
