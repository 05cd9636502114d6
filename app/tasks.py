"""What a job's body is given: engine and settings, a way to commit a step and to notice a cancellation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Engine

from app.cache import BatchCache
from app.jobs import Jobs
from app.settings import Settings
from storage.database import WriteSession

#: One step: rows, arrays and progress written through the session; what it returns is kept as JSON.
Work = Callable[[WriteSession], Any]


class Commit(Protocol):
    """Runs `work` in one transaction, together with the record that it was done.

    When a killed job goes on in another process, a step that was committed is not run again: its recorded
    result is returned. `work` may run twice when the database asks for it, so it changes nothing else.
    """

    def __call__(self, work: Work) -> Any: ...


class Cancelled(Exception):
    """The person asked the job to stop."""


class Superseded(Exception):
    """The job is gone, or was queued anew while this run of it went on: nothing is left to do here."""


class Restart(Exception):
    """The steps recorded by an earlier run do not belong to what this one would store: begin anew."""


@dataclass(frozen=True, slots=True)
class Task:
    """`check` raises Cancelled when the job is to stop: call it every second or so. `stage` names a phase."""

    engine: Engine
    jobs: Jobs
    settings: Settings
    device: str
    cache: BatchCache
    commit: Commit
    check: Callable[[], None]
    stage: Callable[[str], None]
