"""`Recorder`: hands over each step's rollouts without getting in the training's way.

`log` copies what it is given and returns. A thread of its own encodes the step, puts it on disk, sends it and
deletes it once the server has committed it. While the server is away steps wait on disk; the next recorder of
the same run sends what an earlier one left.
"""

import atexit
import logging
import os
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from vantage_client import spool as spooling
from vantage_client.columns import copied, weight
from vantage_client.http import Server
from vantage_client.sender import Sender, Step

log = logging.getLogger("vantage_client")

#: Seconds that the end waits for steps in memory to be on disk, however short the caller's patience.
TO_DISK = 5.0


@dataclass(frozen=True)
class Stats:
    """What became of the steps so far. `seconds`: spent inside `log`, on the caller's thread."""

    logged: int
    sent: int
    waiting: int
    dropped: int
    refused: int
    seconds: float


class Recorder:
    """Records the rollouts of one run at a Vantage server.

    url, run      where to, and the run's name; ValueError where the address cannot be one
    token         the server's token, where it wants one
    split         of steps that do not say theirs: "train", "val", …
    header        metadata of each batch: adv_estimator, gamma, lam, reward_weights, framework …
    spool         folder for steps that the server does not have yet; default: VANTAGE_SPOOL, else the user's
                  cache
    queue_bytes   memory for steps that are not on disk yet; beyond it `log` writes them itself
    spool_bytes   most that may wait on disk; beyond it steps are dropped, and counted

    Nothing but the constructor raises. What goes wrong is a warning of the logger "vantage_client".
    """

    def __init__(
        self,
        url: str,
        run: str,
        token: str | None = None,
        *,
        split: str | None = None,
        header: Mapping[str, Any] | None = None,
        spool: str | os.PathLike[str] | None = None,
        queue_bytes: int = 256 << 20,
        spool_bytes: int = 20 << 30,
        compress: bool = True,
        timeout: float = 30.0,
    ) -> None:
        self.run, self.split, self.header = run, split, {"run": run, **dict(header or {})}
        self._sender = Sender(Server(url, token, timeout), folder_for(spool, url, run), spool_bytes)
        self._queue_bytes, self._compress = queue_bytes, compress
        self._changed = threading.Condition()
        self._queue: deque[Step] = deque()
        self._held = 0
        self._busy = self._closed = self._overflowed = False
        self._logged, self._seconds = 0, 0.0
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="vantage-recorder", daemon=True)
        self._thread.start()
        own = weakref.ref(self)

        def at_exit() -> None:
            recorder = own()
            if recorder is not None:
                recorder.close()

        self._at_exit = at_exit
        atexit.register(at_exit)

    def log(
        self,
        step: int | None,
        rollouts: Any = None,
        *,
        split: str | None = None,
        header: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> None:
        """Record a step. `rollouts`: a list of rows, or a mapping of columns; or give the columns by name.

        Fields are those of canonical rows: prompt, response, reward, group_id, response_ids, response_mask,
        advantages, … Values may be lists, numpy arrays or tensors; per-token ones may be padded [B, T], with
        `response_lengths` [B] to say where each rollout ends. Never raises.
        """
        if os.getpid() != self._pid:  # the locks may have been held when this process was forked off
            log.warning("vantage: step %s not recorded: each process needs a recorder of its own", step)
            return
        begun = time.perf_counter()
        try:
            query = {
                "run": self.run,
                "step": None if step is None else int(step),
                "split": split or self.split,
            }
            own = copied(columns if rollouts is None else rollouts)
            self._take(Step(query, own, {**self.header, **copied(dict(header or {}))}, weight(own)))
        except Exception as error:
            self._sender.drop(step, f"{type(error).__name__}: {error}")
        finally:
            self._seconds += time.perf_counter() - begun

    def _take(self, step: Step) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("the recorder is closed")
            self._logged += 1
            fits = not self._held or self._held + step.bytes <= self._queue_bytes
            if fits:
                self._queue.append(step)
                self._held += step.bytes
                self._changed.notify_all()
        if not fits:
            if not self._overflowed:
                log.warning("vantage: the queue is full; steps go to disk in the training's own time")
            self._overflowed = True
            self._sender.store(step, compress=False)

    def flush(self, timeout: float = 60.0, read: bool = False) -> bool:
        """Wait until the server has committed every step (`read`: has read them, too).

        False where it has not within `timeout` seconds. Never raises.
        """
        if os.getpid() != self._pid:
            return False
        deadline = time.monotonic() + timeout
        with self._changed:
            self._sender.hurry()
            self._changed.notify_all()
            while not self._done(read) and self._thread.is_alive():
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, 0.1))
            self._sender.hurried = False
            return self._done(read)

    def _done(self, read: bool) -> bool:
        open_ones = self._queue or self._busy or self._sender.waiting
        return not open_ones and not (read and self._sender.unsettled)

    def close(self, timeout: float = 30.0) -> None:
        """Send what is left, for at most `timeout` seconds; the rest stays on disk. Never raises."""
        if self._closed or os.getpid() != self._pid:
            return
        self.flush(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        atexit.unregister(self._at_exit)
        self._thread.join(max(timeout, TO_DISK))
        if left := self._sender.waiting:
            log.warning(
                "vantage: %d steps wait in %s; the next recorder of this run sends them", left, self.folder
            )

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where steps wait that the server does not have yet."""
        return self._sender.folder

    @property
    def stats(self) -> Stats:
        queued = len(self._queue) + self._busy
        counts = self._sender.counts
        return Stats(
            logged=self._logged,
            sent=counts["sent"],
            waiting=queued + self._sender.waiting,
            dropped=counts["dropped"],
            refused=counts["refused"],
            seconds=self._seconds,
        )

    def _work(self) -> None:
        """The recorder's own thread."""
        while True:
            with self._changed:
                while not (self._queue or self._sender.due() or self._closed):
                    self._changed.wait(self._sender.patience())
                if self._closed and not self._queue:
                    break
                step = self._queue.popleft() if self._queue else None
                self._busy = step is not None
            try:
                if step is not None:
                    self._sender.store(step, self._compress)
                else:
                    self._sender.work()
            except Exception as error:  # whatever it is, training goes on
                log.warning("vantage: recording failed: %s: %s", type(error).__name__, error)
                self._sender.wait_longer()
            with self._changed:
                self._held -= 0 if step is None else step.bytes
                self._busy = False
                self._changed.notify_all()
        self._sender.settle(last=True)


def folder_for(given: str | os.PathLike[str] | None, url: str, run: str) -> Path:
    """The folder of the run's steps, in one that can be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vantage" / "spool"
    folder = spooling.folder_of(Path(given or os.environ.get("VANTAGE_SPOOL") or cache), url, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError as error:
        other = spooling.folder_of(Path(tempfile.gettempdir()) / "vantage-spool", url, run)
        log.warning("vantage: cannot write to %s (%s); steps wait in %s", folder, error, other)
        other.mkdir(parents=True, exist_ok=True)
        return other
