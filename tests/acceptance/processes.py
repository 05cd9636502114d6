"""Real processes for acceptance tests: start them, find their workers, kill them, wait for what they say.

Everything waits for a condition with a deadline; nothing sleeps and hopes.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import httpx
from sqlalchemy import Engine, select

from storage.database import make_engine, read
from storage.models import Worker

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 120.0

#: Chunks so small and beats so quick that a test can act in the middle of a job.
QUICK = {
    "VANTAGE_CHUNK_BYTES": "6000",
    "VANTAGE_BUFFER_BYTES": "24000",
    "VANTAGE_HEARTBEAT_SECONDS": "0.5",
    "VANTAGE_DEAD_AFTER_SECONDS": "3",
    "VANTAGE_WORKER_CONCURRENCY": "1",
}


def wait_for(condition: Callable[[], T | None], what: str, seconds: float = DEADLINE) -> T:
    """What `condition` gives once it gives something true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {seconds:g} s")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "app.cli", *arguments]


def environment(data_dir: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The test's own environment without its Vantage settings, and the ones asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VANTAGE_")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "VANTAGE_DATA_DIR": str(data_dir),
        "VANTAGE_DEVICE": "cpu",
        **extra,
    }


@dataclass
class Process:
    """A running `vantage` process; its standard error is in `log`."""

    popen: subprocess.Popen[str]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = DEADLINE) -> int:
        """Its exit code, once it has ended."""
        return self.popen.wait(seconds)


@contextmanager
def running(name: str, data_dir: Path, settings: Mapping[str, str], *arguments: str) -> Iterator[Process]:
    """`vantage <arguments>`, killed at the end if it still runs."""
    log = data_dir.parent / f"{name}.log"
    with open(log, "a") as errors, start(data_dir, settings, arguments, errors) as popen:
        try:
            yield Process(popen, log)
        finally:
            if popen.poll() is None:
                popen.kill()


def start(
    data_dir: Path, settings: Mapping[str, str], arguments: tuple[str, ...], errors: IO[str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        env=environment(data_dir, settings),
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=data_dir.parent,
    )


@dataclass
class Server(Process):
    """A process that answers HTTP."""

    url: str = ""

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=DEADLINE)


@contextmanager
def serving(
    data_dir: Path, settings: Mapping[str, str] = QUICK, kind: str = "serve", port: int = 0
) -> Iterator[Server]:
    """`vantage serve` (or `web`) on a free port, or the one given, ready to answer."""
    with running(kind, data_dir, settings, kind, "--port", str(port)) as process:
        assert process.popen.stdout is not None
        line = process.popen.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"no URL but {line!r}; {process.log.read_text()[-2000:]}"
        server = Server(process.popen, process.log, found[0])
        try:
            wait_for(lambda: answers(server), "the server answers")
            yield server
        finally:
            end_children(data_dir, settings)


def answers(server: Server) -> bool:
    if server.popen.poll() is not None:
        raise AssertionError(f"the server ended: {server.log.read_text()[-2000:]}")
    return answers_at(server.url)


def answers_at(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def database(data_dir: Path, settings: Mapping[str, str]) -> Engine:
    """An engine of the test's own on the installation's database."""
    return make_engine(
        settings.get("VANTAGE_DATABASE_URL", f"sqlite:///{data_dir / 'vantage.db'}"), pool_size=2
    )


def live_workers(engine: Engine) -> list[Worker]:
    """Workers that are registered and whose process runs."""
    statement = select(Worker).where(Worker.stopped.is_(None), Worker.reaped.is_(None))
    with read(engine) as session:
        found = list(session.scalars(statement.order_by(Worker.started.desc())))
        session.expunge_all()
    return [worker for worker in found if runs(worker.pid)]


def runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def worker_of(engine: Engine) -> Worker:
    """The one worker that lives, once there is one."""
    return wait_for(lambda: live_workers(engine), "a worker lives")[0]


def end_children(data_dir: Path, settings: Mapping[str, str]) -> None:
    """Kill the workers that a killed server left, so that no test's process outlives it."""
    engine = database(data_dir, settings)
    try:
        for worker in live_workers(engine):
            os.kill(worker.pid, signal.SIGKILL)
    finally:
        engine.dispose()


def run_command(
    data_dir: Path, settings: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """`vantage <arguments>` to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(data_dir, settings),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        cwd=data_dir.parent,
        check=False,
    )
