"""What the recorder's thread does with a step: to disk, to the server, and a look at what became of it."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vantage_client import spool, transfer
from vantage_client.columns import columns_of
from vantage_client.encode import encode
from vantage_client.http import Answer, Away, Refused, Server

log = logging.getLogger("vantage_client")

UPLOADS = "/api/v1/uploads"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
IDLE = 1.0  # between looks at what became of steps that were sent
FINAL = ("succeeded", "failed", "cancelled")
#: Refusals that can be mended at the server: no or another login, another address, the same key at work.
MENDABLE = (401, 403, 404, 409)
REASONS = 16  # so many ways of losing steps are each said at once


@dataclass(frozen=True)
class Step:
    """Copied rollouts on their way to disk. `query`: of the upload."""

    query: dict[str, Any]
    rollouts: Any
    header: dict[str, Any]
    bytes: int


@dataclass
class Sender:
    """Puts steps into `folder` and sends what lies there, oldest first. `spool_bytes`: most that may lie
    there."""

    server: Server
    folder: Path
    spool_bytes: int
    counts: Counter[str] = field(default_factory=Counter)
    hurried: bool = False  # somebody waits: pauses are short
    _retry_at: float = 0.0
    _pause: float = 0.0
    _away: bool = False
    _reasons: set[str] = field(default_factory=set)
    _unsettled: deque[tuple[str, Any]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    @property
    def waiting(self) -> int:
        return len(spool.waiting(self.folder))

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def hurry(self) -> None:
        """Try again at once, and then more often than usual."""
        self.hurried, self._retry_at = True, 0.0

    def due(self) -> bool:
        return time.monotonic() >= self._retry_at and bool(self.unsettled or self.waiting)

    def patience(self) -> float:
        """Seconds until there may be something to do."""
        return max(0.01, min(IDLE, self._retry_at - time.monotonic())) if self._retry_at else IDLE

    def store(self, step: Step, compress: bool) -> None:
        """Put a step on disk; where that cannot be, count it as dropped and say why."""
        number = step.query["step"]
        try:
            count, columns = columns_of(step.rollouts)
            ending, content = encode(count, columns, step.header)
            name = f"rollouts.{ending}" if number is None else f"step_{number}.{ending}"
            query = {**step.query, "filename": name}
            spool.put(self.folder, query, content, compress, self.spool_bytes)
        except spool.Full as error:
            self.drop(number, str(error))
        except Exception as error:
            self.drop(number, f"{type(error).__name__}: {error}")

    def drop(self, number: Any, why: str) -> None:
        """Count a step that is lost. Said at a new reason and at the second, fourth … loss, so that a log is
        not filled and no reason is hidden behind another."""
        self.count("dropped")
        count = self.counts["dropped"]
        new = why not in self._reasons and len(self._reasons) < REASONS
        if new:
            self._reasons.add(why)
        if new or count & (count - 1) == 0:
            log.warning("vantage: step %s dropped (%d so far): %s", number, count, why)

    def work(self) -> None:
        """Send the oldest step; without any, look what became of those that were sent."""
        found = spool.waiting(self.folder)
        if not found:
            self.settle()
            return
        path = found[0]
        try:
            self._send(spool.read(path))
        except Away as error:
            self._stand_back(str(error))
            return
        except Refused as error:
            if error.status in MENDABLE:
                self._stand_back(str(error))
                return
            self.count("refused")
            transfer.forget(path)
            log.warning("vantage: the server refused a step (%s); kept as %s", error, spool.set_aside(path))
        except (FileNotFoundError, ValueError, KeyError):
            path.unlink(missing_ok=True)  # another process sent it, or it is no step at all
            transfer.forget(path)
        if self._away:
            log.warning("vantage: %s takes steps again", self.server.url)
        self._pause, self._retry_at, self._away = 0.0, 0.0, False

    def _send(self, waiting: spool.Waiting) -> None:
        answer = transfer.send(self.server, waiting) if waiting.size > transfer.LARGE else self._post(waiting)
        self._unsettled.append((str(answer.json()["id"]), waiting.query.get("step")))
        waiting.path.unlink(missing_ok=True)
        transfer.forget(waiting.path)
        self.count("sent")

    def _post(self, waiting: spool.Waiting) -> Answer:
        headers = {"Idempotency-Key": waiting.key, "Content-Type": "application/octet-stream"}
        if waiting.encoding is not None:
            headers["Content-Encoding"] = waiting.encoding
        body, size = waiting.open()
        with body:
            headers["Content-Length"] = str(size)
            return self.server.ask(UPLOADS, waiting.query, body, headers, "POST")

    def _stand_back(self, why: str) -> None:
        if not self._away:
            log.warning("vantage: %s; steps wait in %s", why, self.folder)
        self._away = True
        self.wait_longer()

    def wait_longer(self) -> None:
        longest = FIRST_PAUSE if self.hurried else LONGEST_PAUSE
        self._pause = min(longest, max(FIRST_PAUSE, 2 * self._pause))
        self._retry_at = time.monotonic() + self._pause

    def settle(self, last: bool = False) -> None:
        """Look what the server made of steps that it took, and say what it could not read."""
        for _ in range(self.unsettled):
            upload, step = self._unsettled[0]
            try:
                away = self._away and last
                asked = f"{UPLOADS}/{upload}"
                receipt = {"state": "unknown"} if away else self.server.ask(asked, {"problems": 3}).json()
            except (Away, Refused):
                receipt = {"state": "unknown"}
            if receipt["state"] in FINAL:
                report(receipt, step)
            elif not last:
                self._unsettled.append((upload, step))
            self._unsettled.popleft()
        pause = 0.1 if self.hurried else IDLE
        self._retry_at = time.monotonic() + pause if self._unsettled else 0.0


def report(receipt: Mapping[str, Any], step: Any) -> None:
    counts = receipt["counts"]
    if receipt["state"] == "succeeded" and not counts["rejected"]:
        return
    errors = [problem["message"] for problem in receipt["problems"] if problem["severity"] == "error"]
    log.warning(
        "vantage: of step %s the server took %s of %s rollouts: %s",
        step, counts["accepted"], counts["rows"], "; ".join(errors) or receipt["error"],
    )  # fmt: skip
