"""Work on items ahead of whoever takes them, in a thread of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
WAIT_SECONDS = 0.25


@contextmanager
def ahead(items: Iterator[T], meanwhile: Callable[[], None]) -> Iterator[Iterator[T]]:
    """The same items in the same order, one being made while another is worked on.

    What `items` raises is raised where its next item is asked for. `meanwhile` is called while there is
    nothing to take; what it raises is raised there too. Once the context is left, the thread is gone and
    `items` is not running any more: it may be closed.
    """
    made: Queue[T | BaseException | None] = Queue(maxsize=1)
    leave = Event()

    def hand(item: T | BaseException | None) -> None:
        while not leave.is_set():
            try:
                made.put(item, timeout=WAIT_SECONDS)
                return
            except Full:
                continue

    def work() -> None:
        try:
            for item in items:
                hand(item)
                if leave.is_set():
                    return
        except BaseException as error:  # raised again where it is waited for
            hand(error)
        else:
            hand(None)

    thread = Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        yield _taken(made, meanwhile)
    finally:
        leave.set()
        thread.join()


def _taken(made: "Queue[T | BaseException | None]", meanwhile: Callable[[], None]) -> Iterator[T]:
    while True:
        try:
            item = made.get(timeout=WAIT_SECONDS)
        except Empty:
            meanwhile()
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
