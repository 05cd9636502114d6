"""A real `vantage serve` on a data folder of its own, and what its processes cost."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Server:
    url: str
    pid: int
    peak: dict[str, int] = field(default_factory=dict)  # role -> bytes
    cpu: dict[str, float] = field(default_factory=dict)  # role -> seconds of CPU so far

    def sample(self) -> None:
        """Note the resident memory, and the CPU time, of the web process and of its worker child."""
        for role, pid in [("web", self.pid), *(("worker", child) for child in children(self.pid))]:
            self.peak[role] = max(self.peak.get(role, 0), resident(pid))
            self.cpu[role] = max(self.cpu.get(role, 0.0), cpu_seconds(pid))


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found


def resident(pid: int) -> int:
    """Resident bytes of a process now, 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match.group(1)) * 1024 if match else 0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, 0 when it is gone."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(data_dir: Path) -> Iterator[Server]:
    """Start `vantage serve --port 0`, wait until it is ready, stop it at the end."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--data-dir", str(data_dir)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open(data_dir / "serve.log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if match := re.search(r"http://[\d.]+:\d+", line):
                break
        else:
            raise SystemExit(f"vantage serve ended; see {data_dir / 'serve.log'}")
        wait_ready(match.group(0))
        yield Server(match.group(0), process.pid)
    finally:
        process.terminate()
        process.wait(30)


def wait_ready(url: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while httpx.get(f"{url}/readyz").status_code != 200:
        if time.monotonic() > deadline:
            raise SystemExit("the server did not become ready")
        time.sleep(0.2)
