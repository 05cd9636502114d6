"""Working ahead changes neither the items nor their order, and ends with whoever takes them."""

import threading
from collections.abc import Generator, Iterator

import pytest

from app.ahead import ahead


def nothing() -> None:
    pass


def test_same_items_in_the_same_order() -> None:
    with ahead(iter(range(100)), nothing) as items:
        assert list(items) == list(range(100))


def test_an_error_comes_where_its_item_would() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    taken = []
    with pytest.raises(ValueError, match="no more"), ahead(broken(), nothing) as items:
        for item in items:
            taken.append(item)
    assert taken == [1]


def test_one_item_ahead_and_no_more() -> None:
    made: list[int] = []

    def counted() -> Generator[int]:
        for number in range(100):
            made.append(number)
            yield number

    source = counted()
    with ahead(source, nothing) as items:
        assert next(items) == 0
    source.close()  # fails where the thread still runs it
    assert len(made) <= 4


def test_meanwhile_may_give_up_a_source_that_is_slow() -> None:
    wait = threading.Event()

    def slow() -> Iterator[int]:
        wait.wait()
        yield 1

    def stop() -> None:
        wait.set()
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"), ahead(slow(), stop) as items:
        next(items)
