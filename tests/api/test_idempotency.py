"""Keys as they are kept, on both kinds of database."""

import time

import pytest
from sqlalchemy import Engine
from starlette.datastructures import MutableHeaders

from app.api.idempotency import STALE_SECONDS, Answer, Claim, claim, release, settle
from app.errors import Conflict, Unprocessable
from storage import idempotency
from storage.database import read, write

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
    )
    again = claim(engine, CLAIM)
    assert again is not None
    assert (again.status_code, bytes(again.body), again.headers["location"]) == (201, b'{"id":"x"}', "/x")
    assert "set-cookie" not in again.headers


def test_what_was_only_begun_is_answered_anew(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(engine, CLAIM, answer(202))
    assert claim(engine, CLAIM) is None


@pytest.mark.parametrize("other", [Claim("key", "/other", "digest"), Claim("key", CLAIM.path, "other")])
def test_another_request_under_the_same_key_is_refused(engine: Engine, other: Claim) -> None:
    claim(engine, CLAIM)
    with pytest.raises(Unprocessable, match="another request"):
        claim(engine, other)


def test_a_refusal_and_a_failure_give_the_key_back(engine: Engine) -> None:
    claim(engine, CLAIM)
    settle(engine, CLAIM, answer(422))
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
    settle(engine, CLAIM, answer(201, b"token", cache_control="no-store"))
    with read(engine) as session:
        found = idempotency.lookup(session, CLAIM.key)
        assert found is not None and found.body == b""
    with pytest.raises(Conflict, match="shown only once"):
        claim(engine, CLAIM)
