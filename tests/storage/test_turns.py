"""Processes that start together on one database take turns, and none stands in another's way."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.database import make_engine
from storage.turns import turn


def test_one_holds_the_turn_while_another_waits_and_says_so(database_url: str, tmp_path: Path) -> None:
    waits, order = threading.Event(), []

    def second() -> None:
        with turn(database_url, tmp_path, lambda _seconds: waits.set()):
            order.append("second")

    with turn(database_url, tmp_path, lambda _seconds: pytest.fail("nobody else is there")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(20)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]


def test_whoever_waits_holds_no_snapshot(empty_url: str, tmp_path: Path) -> None:
    """CREATE INDEX CONCURRENTLY, which the job engine's migrations use, waits for every older snapshot."""
    waits = threading.Event()

    def second() -> None:
        with turn(empty_url, tmp_path, lambda _seconds: waits.set()):
            pass

    engine = make_engine(empty_url, pool_size=1)
    thread = threading.Thread(target=second)
    try:
        with (
            turn(empty_url, tmp_path, lambda _seconds: None),
            engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            thread.start()
            assert waits.wait(20)
            connection.execute(text("CREATE TABLE t (a int)"))
            connection.execute(text("SET statement_timeout = '10s'"))
            connection.execute(text("CREATE INDEX CONCURRENTLY i ON t (a)"))
    finally:
        thread.join(20)
        engine.dispose()
