"""Chaos: clients upload and ask while processes are killed, frozen and restarted; then everything is checked.

    python -m tests.chaos.run --seconds 600 --database postgresql --seed 3

Every acknowledged upload must be there with every number, every acknowledged estimate must equal an
independent computation, nothing may be there twice, in part or without its owner. Prints what was done and
each violation as JSON; the exit code is 1 where there is one.
"""

import argparse
import json
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import psycopg.sql
from sqlalchemy import Engine, func, select

from storage import estimates, rollouts
from storage.check import verify
from storage.database import read
from storage.models import Batch, Estimate, Upload
from tests import databases
from tests.acceptance.checks import assert_nothing_partial, assert_whole
from tests.acceptance.dumps import GROUP_SIZE, reward_of
from tests.acceptance.processes import end_children
from tests.chaos.site import ROLLOUTS, TOKENS, Site, ask, load

CLIENTS, ASKED = 4, 10
RECOVERY_SECONDS = 120.0
PAUSE = (2.0, 8.0)


def chaos(folder: Path, url: str | None, seconds: float, seed: int) -> dict[str, Any]:
    """Run and check: {kills, uploads, estimates, recovery_seconds, violations}."""
    data_dir = folder / "data"
    data_dir.mkdir()
    if url is not None:
        make_durable(url)
    site = Site(data_dir, url, free_port())
    site.start()
    try:
        site.wait_until_up()
        harm(site, seconds, seed)
        began = time.monotonic()
        left = wait_for_all(site)
        found = [f"{kind} {id} is still open" for kind, id in left]
        recovered = time.monotonic() - began
        ask_for_some(site)
        wait_for_all(site)
        found += violations(site)
    finally:
        if site.process is not None:
            site.process.send_signal(signal.SIGTERM)
            site.process.wait(60)
        end_children(data_dir, site.settings)
    return {
        "seed": seed, "seconds": seconds, "kills": site.kills, "uploads": len(site.uploads),
        "estimates": len(site.estimates), "recovery_seconds": round(recovered, 1), "violations": found,
    }  # fmt: skip


def make_durable(url: str) -> None:
    """The tests' server answers a commit before it is written, to be quick, and loses such commits when it is
    killed. This database waits for them, as every real one does unless told otherwise."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = psycopg.sql.Identifier(connection.info.dbname)
        connection.execute(psycopg.sql.SQL("ALTER DATABASE {} SET synchronous_commit = on").format(name))


def harm(site: Site, seconds: float, seed: int) -> None:
    source, stop = random.Random(seed), threading.Event()
    clients = [threading.Thread(target=load, args=(site, n, stop), daemon=True) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stop.wait(source.uniform(*PAUSE))
        site.harm(source)
    stop.set()
    for client in clients:
        client.join(60)


def ask_for_some(site: Site) -> None:
    """Estimates also of batches for which nobody came to ask while all was in motion."""
    with httpx.Client(base_url=site.address, timeout=60) as client:
        for upload in sorted(site.uploads)[:ASKED]:
            ask(site, client, upload)


def wait_for_all(site: Site) -> list[tuple[str, str]]:
    """What of the acknowledged is still open after the time for recovery."""
    engine, deadline = site.engine(), time.monotonic() + RECOVERY_SECONDS
    try:
        while (left := still_open(engine)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left
    finally:
        engine.dispose()


def still_open(engine: Engine) -> list[tuple[str, str]]:
    with read(engine) as session:
        return [
            (model.__tablename__, str(id))
            for model in (Upload, Estimate)
            for id in session.scalars(select(model.id).where(model.state.in_(("queued", "running"))))
        ]


def violations(site: Site) -> list[str]:
    engine, found = site.engine(), []
    checks: list[tuple[str, Any]] = [
        (f"upload {id}", lambda id=id: check_upload(engine, id)) for id in sorted(site.uploads)
    ]
    checks += [(f"estimate {id}", lambda id=id: check_estimate(engine, id)) for id in sorted(site.estimates)]
    checks += [("database", lambda: assert_nothing_partial(engine)), ("database", lambda: verified(engine))]
    try:
        for name, check in checks:
            try:
                check()
            except AssertionError as error:
                found.append(f"{name}: {str(error).splitlines()[0] if str(error) else 'not as it must be'}")
    finally:
        engine.dispose()
    return found


def verified(engine: Engine) -> None:
    with read(engine) as session:
        assert list(verify(session)) == []


def check_upload(engine: Engine, upload_id: str) -> None:
    """It succeeded, and its one batch has every row and number once."""
    with read(engine) as session:
        upload = session.get(Upload, upload_id)
        assert upload is not None, "acknowledged and not there"
        assert upload.state == "succeeded", f"{upload.state}: {upload.error}"
        owner = upload.duplicate_of or upload.id
        ids = session.scalars(select(Batch.id).where(Batch.upload_id == owner)).all()
        runs = session.scalar(
            select(func.count()).select_from(Batch).where(Batch.run_id.in_(
                select(Batch.run_id).where(Batch.upload_id == owner)
            ))
        )  # fmt: skip
    assert (len(ids), runs) == (1, 1), f"{len(ids)} batches of it, {runs} of its run"
    assert_whole(engine, ids[0], ROLLOUTS, TOKENS, checksums=False)


def check_estimate(engine: Engine, estimate_id: str) -> None:
    """Each reward less the mean of its siblings', computed here from the dump."""
    with read(engine) as session:
        row = session.get(Estimate, estimate_id)
        assert row is not None, "acknowledged and not there"
        assert row.state == "succeeded", f"{row.state}: {row.error}"
        order = rollouts.columns(session, row.batch_id).index.tolist()
        found = estimates.columns(session, estimate_id)
    rewards = np.array([reward_of(index) for index in range(ROLLOUTS)])
    group = np.arange(ROLLOUTS) % (ROLLOUTS // GROUP_SIZE)
    sums = np.bincount(group, rewards)[group]
    expected = rewards - (sums - rewards) / (GROUP_SIZE - 1)
    by_index = dict(zip(found["index"].tolist(), found["advantage"].tolist(), strict=True))
    np.testing.assert_allclose([by_index[index] for index in order], expected[order], atol=1e-9)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vantage-chaos-")))
        url = None
        if asked.database == "postgresql":
            server = stack.enter_context(databases.postgres_server(folder / "postgres.lock"))
            url = server.format(name=databases.TEMPLATE)
        report = chaos(folder, url, asked.seconds, asked.seed)
    sys.stdout.write(json.dumps(report | {"database": asked.database}, indent=1) + "\n")
    sys.exit(1 if report["violations"] else 0)


if __name__ == "__main__":
    main()
