"""Checks that may fail: one that cannot be done is said, logged and counted, and costs nothing else.

A check looks at what is stored already, so whatever goes wrong in it must not undo the storing.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from app.logs import get_logger

log = get_logger("vantage.attempts")
T = TypeVar("T")
#: Code and title of a check.
Check = tuple[str, str]

#: Checks that are no finding.
RECONCILIATION = ("reconciliation", "What made the recorded advantages")
STATISTICS = ("statistics", "Statistics of the batch")
FIRST_ESTIMATES = ("first_estimates", "Which estimates to compute first")
#: What stands for all findings where the batch cannot even be read for them.
FINDINGS = ("findings", "All findings of the batch")

#: The innermost places of a traceback that are logged.
PLACES = 8

#: How often each check failed in this process.
FAILED: Counter[str] = Counter()
_counting = Lock()


@dataclass(slots=True)
class Attempts:
    """The checks of one batch or run. `about`: how the log names it (`batch="…"`). `failed`: code -> title of
    each check that could not be done."""

    about: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def do(self, check: Check, work: Callable[[], T], otherwise: T) -> T:
        """What `work` gives; `otherwise`, where it raises."""
        try:
            return work()
        except Exception as error:
            self.fail(check, error)
            return otherwise

    def fail(self, check: Check, error: Exception) -> None:
        """Note that the check could not be done. The error's message may quote a rollout: it is not logged,
        the places are."""
        code, title = check
        self.failed[code] = title
        with _counting:
            FAILED[code] += 1
        kind = type(error).__name__
        log.error("check failed", check=code, error=kind, where=places(error), **self.about)


def places(error: BaseException) -> list[str]:
    """The innermost places of the error's traceback, outermost first: file, line, function."""
    frames = traceback.extract_tb(error.__traceback__)[-PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


def said(failed: Mapping[str, str]) -> list[dict[str, str]]:
    """Failed checks as they are sent: `{check, title, message}`."""
    return [{"check": code, "title": title, "message": sentence(title)} for code, title in failed.items()]


def sentence(title: str) -> str:
    """What a person is told of a check that could not be done."""
    return f"Could not be checked: {title}."
