"""Which checks of a batch could not be done, on both databases."""

from sqlalchemy import Engine

from storage import batches, unchecked
from storage.database import read, write
from tests.builders import make_batch


def test_what_could_not_be_checked_is_kept_until_it_is(engine: Engine) -> None:
    one, other = make_batch(engine).id, make_batch(engine).id
    with write(engine) as session:
        unchecked.record(session, one, {"b": "B", "a": "A"})
        unchecked.record(session, one, {"b": "B again"})
        unchecked.record(session, other, {"b": "B"})
        unchecked.record(session, other, {})
        unchecked.record(session, "gone", {"b": "B"})
    with read(engine) as session:
        assert unchecked.of_batch(session, one) == {"a": "A", "b": "B again"}
        assert unchecked.of_batches(session, [one, other, "gone"]) == {
            one: {"a": "A", "b": "B again"},
            other: {"b": "B"},
        }
        assert unchecked.counts(session) == {"a": 1, "b": 2}
    with write(engine) as session:
        unchecked.forget(session, one, ("b", "never there"))
        batches.delete(session, other)
    with read(engine) as session:
        assert unchecked.of_batch(session, one) == {"a": "A"}
        assert unchecked.counts(session) == {"a": 1}
