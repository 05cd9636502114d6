"""Keys as they are kept, on both kinds of database."""

import time

import pytest
from fastapi import Request
from sqlalchemy import Engine, event, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import Session
from starlette.datastructures import MutableHeaders

from app.api.idempotency import STALE_SECONDS, Answer, Claim, claim, release, settle
from app.deps import Keyed
from app.errors import Conflict, Unprocessable
from storage import idempotency
from storage.database import read, write
from storage.models import Dashboard, IdempotencyKey, Share
from tests.api.conftest import Service, refused
from tests.api.rows import ROWS, jsonl

CLAIM = Claim("key", "/api/v1/dashboards", "digest")


def answer(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    raw = MutableHeaders(headers={name.replace("_", "-"): value for name, value in headers.items()}).raw
    return Answer([{"type": "http.response.start", "status": status, "headers": raw}, {"body": body}])


def test_a_second_request_at_the_same_time_is_told_to_come_back(engine: Engine) -> None:
    assert claim(engine, CLAIM) is None
    with pytest.raises(Conflict, match="still at work"):
        claim(engine, CLAIM)


def test_the_answer_is_given_again(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(
        engine,
        CLAIM,
        answer(201, b'{"id":"x"}', location="/x", content_type="application/json", set_cookie="no"),
        Keyed(),
    )
    again = claim(engine, CLAIM)
    assert again is not None
    assert (again.status_code, bytes(again.body), again.headers["location"]) == (201, b'{"id":"x"}', "/x")
    assert "set-cookie" not in again.headers


def test_what_was_only_begun_is_answered_anew(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(engine, CLAIM, answer(202), Keyed())
    assert claim(engine, CLAIM) is None


@pytest.mark.parametrize("other", [Claim("key", "/other", "digest"), Claim("key", CLAIM.path, "other")])
def test_another_request_under_the_same_key_is_refused(engine: Engine, other: Claim) -> None:
    claim(engine, CLAIM)
    with pytest.raises(Unprocessable, match="another request"):
        claim(engine, other)


def test_a_refusal_and_a_failure_give_the_key_back(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(engine, CLAIM, answer(422), Keyed())
    assert claim(engine, CLAIM) is None
    release(engine, CLAIM)
    assert claim(engine, CLAIM) is None


def test_a_claim_of_a_killed_process_is_taken_over(engine: Engine) -> None:
    claim(engine, CLAIM)
    with write(engine) as session:
        found = idempotency.lookup(session, CLAIM.key)
        assert found is not None
        found.created = time.time() - STALE_SECONDS - 1
    assert claim(engine, CLAIM) is None
    with pytest.raises(Conflict):
        claim(engine, CLAIM)


def test_a_secret_leaves_no_copy(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(engine, CLAIM, answer(201, b"token", cache_control="no-store"), Keyed())
    with read(engine) as session:
        found = idempotency.lookup(session, CLAIM.key)
        assert found is not None and found.body == b""
    with pytest.raises(Conflict, match="shown only once"):
        claim(engine, CLAIM)


@pytest.mark.parametrize("what", ["dashboard", "share"])
def test_work_and_answer_are_committed_at_once(service: Service, what: str) -> None:
    """Whatever moment a process is killed at: there is never the one without the other."""
    made = service.post("/dashboards", json={"title": "first"}).json()["id"]
    path = "/dashboards" if what == "dashboard" else f"/dashboards/{made}/shares"
    model = Dashboard if what == "dashboard" else Share
    seen: list[tuple[int, int]] = []

    def look(*_: object) -> None:
        with read(service.place.engine) as session:
            count = session.scalar(select(func.count()).select_from(model)) or 0
            found = idempotency.lookup(session, "k")
            seen.append((count, 0 if found is None else found.status))

    event.listen(Session, "after_commit", look)
    try:
        body = {"title": "second"} if what == "dashboard" else {}
        answer = service.post(path, json=body, headers={"Idempotency-Key": "k"})
    finally:
        event.remove(Session, "after_commit", look)
    assert answer.status_code == 201
    before = 1 if what == "dashboard" else 0
    assert seen == [(before, 0), (before + 1, 201)]


def test_a_commit_that_fails_leaves_neither(service: Service) -> None:
    key = {"Idempotency-Key": "k"}

    def fail(session: Session) -> None:
        if any(isinstance(each, IdempotencyKey) for each in session.dirty):
            raise OperationalError("", {}, Exception("the database is away"))

    event.listen(Session, "before_commit", fail)
    try:
        answer = service.post("/dashboards", json={"title": "once"}, headers=key)
    finally:
        event.remove(Session, "before_commit", fail)
    refused(answer, 503, "send the request again")
    assert service.get("/dashboards")["total"] == 0
    assert service.post("/dashboards", json={"title": "once"}, headers=key).status_code == 201
    again = service.post("/dashboards", json={"title": "once"}, headers=key)
    assert again.status_code == 201 and again.headers["Idempotent-Replayed"] == "true"
    assert service.get("/dashboards")["total"] == 1


@pytest.mark.parametrize(
    "error", [OperationalError("", {}, Exception("away")), NoConnection("every connection is taken")]
)
def test_a_database_that_is_away_is_503_also_with_a_key(service: Service, error: Exception) -> None:
    def away(*_: object) -> None:
        raise error

    event.listen(service.place.engine, "begin", away)
    try:
        answer = service.post("/dashboards", json={"title": "x"}, headers={"Idempotency-Key": "k"})
    finally:
        event.remove(service.place.engine, "begin", away)
    refused(answer, 503, "does not answer")


def test_an_upload_by_form_keeps_its_own_key_and_is_not_held_in_memory(service: Service) -> None:
    key, files = {"Idempotency-Key": "form"}, {"file": ("a.jsonl", jsonl(ROWS))}
    called: list[int] = []
    asked = Request.body

    async def body(request: Request) -> bytes:
        called.append(1)
        return await asked(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Request, "body", body)
        answers = [
            service.client.post("/uploads", files=files, headers=key, follow_redirects=False)
            for _ in range(2)
        ]
    assert [answer.status_code for answer in answers] == [303, 303]
    assert answers[0].headers["location"] == answers[1].headers["location"]
    assert called == [], "the body goes to the disk, not through the middleware"
    service.work()
    assert service.get("/batches")["total"] == 1
