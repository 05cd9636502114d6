"""Lets the job engine look for jobs at once when one was queued, instead of at its next look.

DBOS has one thread for each queue, which waits for an event between two looks; the event means the end of
the process. Here that waiting can be ended early. Nothing else of the engine is touched: the thread looks as
it always does, and where a later version waits in another way, it looks as often as before.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable

#: How DBOS names the thread of a queue.
THREAD = "queue-worker-"


def rousable(events: Iterable[threading.Event]) -> Callable[[str], None]:
    """A function that lets the thread of a queue, by its name, wait no longer for one of these events."""
    changed, seen = threading.Condition(), threading.local()
    roused: Counter[str] = Counter()

    def rouse(queue: str) -> None:
        with changed:
            roused[queue] += 1
            changed.notify_all()

    def replace(event: threading.Event) -> None:
        settle = event.set

        def wait(timeout: float | None = None) -> bool:
            queue = threading.current_thread().name.removeprefix(THREAD)
            with changed:
                before = getattr(seen, "count", 0)  # more by now: roused while it looked
                changed.wait_for(lambda: event.is_set() or roused[queue] != before, timeout)
                seen.count = roused[queue]
            return event.is_set()

        def set_() -> None:
            settle()
            with changed:
                changed.notify_all()

        event.wait = wait  # type: ignore[method-assign] # an Event has no hook to end a wait early
        event.set = set_  # type: ignore[method-assign] # an Event tells only those in its own wait

    for event in events:
        replace(event)
    return rouse
