"""An installation that is killed and started again, and the dumps that it acknowledged."""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from tests import databases
from tests.acceptance.dumps import dump
from tests.acceptance.processes import QUICK, answers_at, command, database, environment, live_workers

ROLLOUTS, TOKENS = 64, 32
ESTIMATE = {"estimator": "rloo", "whitening": {"scope": "none"}}
FROZEN_SECONDS = 5.0


@dataclass
class Site:
    """`vantage serve` in a data folder. `url`: of its PostgreSQL, None for SQLite."""

    data_dir: Path
    url: str | None
    port: int
    process: subprocess.Popen[bytes] | None = None
    uploads: dict[str, str] = field(default_factory=dict)
    estimates: set[str] = field(default_factory=set)
    kills: dict[str, int] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        return {**QUICK, **({"VANTAGE_DATABASE_URL": self.url} if self.url else {})}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = open(self.data_dir.parent / "serve.log", "ab")  # noqa: SIM115 # the process keeps it
        with log:
            self.process = subprocess.Popen(
                command("serve", "--port", str(self.port)), stdout=log, stderr=log,
                env=environment(self.data_dir, self.settings), cwd=self.data_dir.parent,
            )  # fmt: skip

    def wait_until_up(self, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if answers_at(self.address):
                return
            time.sleep(0.1)
        raise AssertionError(f"the server does not answer within {seconds:g} s")

    def engine(self) -> Engine:
        return database(self.data_dir, self.settings)

    def harm(self, source: random.Random) -> None:
        """Do one thing to it that a bad day does, and let it come back."""
        kinds: list[tuple[str, Callable[[], object]]] = [
            ("web", self.kill_web), ("worker", lambda: self.signal_worker(signal.SIGKILL)),
            ("frozen worker", self.freeze),
        ]  # fmt: skip
        if self.url:
            kinds += [("postgres", lambda: self.restart_postgres("immediate"))]
            kinds += [("postgres restart", lambda: self.restart_postgres("fast"))]
        name, act = source.choice(kinds)
        act()
        self.kills[name] = self.kills.get(name, 0) + 1

    def kill_web(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.start()
        self.wait_until_up()

    def signal_worker(self, number: int) -> int | None:
        engine = self.engine()
        try:
            workers = live_workers(engine)
        except SQLAlchemyError:
            return None
        finally:
            engine.dispose()
        if not workers:
            return None
        os.kill(workers[0].pid, number)
        return workers[0].pid

    def freeze(self) -> None:
        pid = self.signal_worker(signal.SIGSTOP)
        time.sleep(FROZEN_SECONDS)  # the harm itself
        if pid is not None:
            os.kill(pid, signal.SIGCONT)

    def restart_postgres(self, mode: str) -> None:
        assert self.url is not None
        data = f"{make_url(self.url).query['host']}/data"
        user = databases.POSTGRES_USER if os.geteuid() == 0 else None
        databases.postgres("pg_ctl", "-w", "-t", "60", "-m", mode, "-D", data, "restart", user=user)


def load(site: Site, number: int, stop: threading.Event) -> None:
    """One client: sends dumps of runs of its own, asks for estimates, notes what was acknowledged."""
    with httpx.Client(base_url=site.address, timeout=30) as client:
        count, sent = 0, list[str]()
        while not stop.is_set():
            run = f"run {number} {count}"
            try:
                upload = send(site, client, run)
                if upload is not None:
                    count += 1
                    sent.append(upload)
                for earlier in sent[-3:]:
                    ask(site, client, earlier)
            except httpx.TransportError:
                stop.wait(0.2)


def send(site: Site, client: httpx.Client, run: str) -> str | None:
    headers = {"Idempotency-Key": run}
    content = dump(ROLLOUTS, TOKENS, run=run)
    answer = client.post("/api/v1/uploads", params={"wait": 5}, content=content, headers=headers)
    if answer.status_code not in (200, 201, 202):
        assert answer.status_code in (409, 503), answer.text
        return None
    site.uploads[str(answer.json()["id"])] = run
    return str(answer.json()["id"])


def ask(site: Site, client: httpx.Client, upload: str) -> None:
    shown = client.get(f"/api/v1/uploads/{upload}")
    for batch in shown.json()["batches"] if shown.status_code == 200 else ():
        made = client.post(f"/api/v1/batches/{batch['id']}/estimates", json=ESTIMATE)
        assert made.status_code in (200, 201, 202, 503), made.text
        if made.status_code != 503:
            site.estimates.add(str(made.json()["id"]))
