"""Workers and answers already given."""

from sqlalchemy import Engine

from storage import idempotency, workers
from storage.database import read, write


def register(engine: Engine, *names: str) -> None:
    with write(engine) as session:
        for name in names:
            workers.register(session, name, "host", 1, "cpu", ["ingest", "estimate"])


def test_a_silent_worker_is_found_and_reaped_once(engine: Engine) -> None:
    register(engine, "alive", "silent", "stopped")
    with write(engine) as session:
        for name, seen in (("alive", 1000.0), ("silent", 900.0), ("stopped", 900.0)):
            assert workers.beat(session, name, now=seen)
        workers.stop(session, "stopped")
    with read(engine) as session:
        assert [w.executor_id for w in workers.dead(session, older_than=970.0)] == ["silent"]
        assert workers.dead(session, older_than=900.0) == []
        assert [w.executor_id for w in workers.unreaped(session)] == ["silent", "alive"]
        assert [w.executor_id for w in workers.list_all(session)] == ["alive", "silent", "stopped"]
        assert [w.executor_id for w in workers.list_all(session, since=950.0)] == ["alive"]
    with write(engine) as session:
        assert workers.mark_reaped(session, "silent")
        assert not workers.mark_reaped(session, "silent")
        assert not workers.beat(session, "silent")  # it learns that its jobs are gone
        assert not workers.beat(session, "unknown")
    with read(engine) as session:
        assert [w.executor_id for w in workers.dead(session, older_than=2000.0)] == ["alive"]


def test_whether_a_worker_was_seen(engine: Engine) -> None:
    register(engine, "w", "stopped")
    with write(engine) as session:
        workers.beat(session, "w", now=1000.0)
        workers.beat(session, "stopped", now=2000.0)
        workers.stop(session, "stopped")
    with read(engine) as session:
        assert workers.seen(session, since=1000.0)
        assert not workers.seen(session, since=1000.5)


def test_an_answer_is_remembered_once(engine: Engine) -> None:
    with write(engine) as session:
        assert idempotency.remember(session, "key", "/uploads", "d1", 201, {"Location": "/x"}, b"\x00body")
        assert not idempotency.remember(session, "key", "/other", "d2", 500, {}, b"")
    with read(engine) as session:
        found = idempotency.lookup(session, "key")
        assert found is not None
        assert (found.path, found.digest, found.status) == ("/uploads", "d1", 201)
        assert (found.headers, found.body) == ({"Location": "/x"}, b"\x00body")
        assert idempotency.lookup(session, "other") is None
        before = found.created + 1
    with write(engine) as session:
        idempotency.forget(session, before - 1)
        assert idempotency.lookup(session, "key") is not None
        idempotency.forget(session, before)
    with read(engine) as session:
        assert idempotency.lookup(session, "key") is None
