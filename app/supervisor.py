"""Keeps one worker child alive beside the web process, and takes over its jobs the moment it dies."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from sqlalchemy import Engine

from app.jobs import Jobs
from app.lifecycle import bury
from app.logs import get_logger
from app.settings import Settings
from app.worker import DRAIN_SECONDS, executor_name

log = get_logger("vantage.supervisor")

FIRST_DELAY, LAST_DELAY = 0.25, 30.0
#: A child that lived so long did not die of its own start.
STEADY_SECONDS = 30.0
PR_SET_PDEATHSIG = 1


class Supervisor:
    """A thread that starts the worker again whenever it ends, until `close`. It is the thread that forks, so
    it lives as long as the process: the child is told of its parent's death when that thread ends."""

    def __init__(self, settings: Settings, engine: Engine, jobs: Jobs) -> None:
        self.settings, self.engine, self.jobs = settings, engine, jobs
        self.stopping = threading.Event()
        self.child: subprocess.Popen[bytes] | None = None
        self.thread = threading.Thread(target=self._run, name="supervisor")

    def start(self) -> None:
        self.thread.start()

    def _run(self) -> None:
        delay = FIRST_DELAY
        while not self.stopping.is_set():
            executor, began = executor_name(), time.monotonic()
            self.child = subprocess.Popen(worker_command(executor), env=environment(self.settings))
            if self.stopping.is_set():  # closed while the child was being started
                self.child.terminate()
            code = self.child.wait()
            if self.stopping.is_set():
                return
            steady = time.monotonic() - began > STEADY_SECONDS
            delay = FIRST_DELAY if steady else min(delay * 2, LAST_DELAY)
            log.warning("worker ended", code=code, executor=executor, next_start_in=delay)
            self._bury(executor)
            self.stopping.wait(delay)

    def _bury(self, executor: str) -> None:
        try:
            bury(self.engine, self.jobs, executor)
        except Exception as error:  # the next worker finds the dead one by its silence
            log.warning("could not take over its jobs", executor=executor, error=type(error).__name__)

    def close(self) -> None:
        """Ask the child to drain and wait for it; kill it when it does not end."""
        self.stopping.set()
        child = self.child
        if child is not None and child.poll() is None:
            child.terminate()
            try:
                child.wait(DRAIN_SECONDS + 5)
            except subprocess.TimeoutExpired:
                child.kill()
        if self.thread.is_alive():
            self.thread.join()


def worker_command(executor: str) -> Sequence[str]:
    return (sys.executable, "-m", "app.child", executor, str(os.getpid()))


def environment(settings: Settings) -> dict[str, str]:
    """This process's environment with every setting in it as it is here, command line options included."""
    values = settings.model_dump(mode="json")
    values["data_dir"] = str(settings.data_dir.resolve())
    return dict(os.environ) | {
        f"VANTAGE_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None
    }


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent dies (Linux; elsewhere the heartbeat notices)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the line above
        os.kill(os.getpid(), signal.SIGTERM)
