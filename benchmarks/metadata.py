"""A run of many steps, its rollouts without token arrays, written straight into a database.

A few batches are stored and summed up by the product's own functions and estimated by its own worker; every
step of the run is then a copy of one of them, made by the database itself: 8 million rollouts take minutes.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import server
from sqlalchemy import Engine, Table, delete, insert, literal, select, update

from app import findings
from storage import batches, jobs, runs, uploads
from storage import rollouts as rollout_rows
from storage.batches import NewPart
from storage.database import checkpoint, make_engine, migrate, write
from storage.ids import new_id
from storage.models import Base, Batch, Run, Upload

GROUP = 16
TASKS = 3
TEMPLATES = 8
#: Filled by copying, a table after those that it refers to. Column -> which of the new ids it takes.
COPIED: tuple[tuple[str, dict[str, str]], ...] = (
    ("upload", {"id": "upload"}),
    ("batch", {"id": "batch", "upload_id": "upload", "run_id": "run"}),
    ("prompt", {"batch_id": "batch"}),
    ("rollout", {"batch_id": "batch"}),
    ("packed_batch", {"batch_id": "batch"}),
    ("estimate", {"id": "estimate", "batch_id": "batch"}),
    ("estimate_rollout", {"estimate_id": "estimate"}),
    ("packed_estimate", {"estimate_id": "estimate"}),
    ("running_moments", {"batch_id": "batch", "run_id": "run"}),
)


@dataclass(frozen=True, slots=True)
class Filled:
    """Id of the run, and of its batches and their estimates by step."""

    run: str
    batches: list[str]
    estimates: list[str]


def fill(folder: Path, steps: int, rollouts: int, name: str = "million") -> Filled:
    """Fill the database of a data folder."""
    url = f"sqlite:///{folder / 'vantage.db'}"
    migrate(url)
    engine = make_engine(url)
    rng = np.random.default_rng(3)
    kinds = min(TEMPLATES, steps)
    templates = [add_batch(engine, step, rollouts, 0.2 + 0.6 * step / kinds, rng) for step in range(kinds)]
    estimates = estimate_all(folder, templates)
    with write(engine) as session:
        run_id = runs.get_or_create(session, name).id
    filled = Filled(run_id, [], [])
    for step in range(steps):
        kind = step * kinds // steps
        batch_id, estimate_id = copy(engine, templates[kind], estimates[kind], run_id, step)
        filled.batches.append(batch_id)
        filled.estimates.append(estimate_id)
    with write(engine) as session:  # the originals are no part of the run
        session.execute(delete(Run).where(Run.name == "templates"))
    checkpoint(engine)
    engine.dispose()
    return filled


def add_batch(engine: Engine, step: int, rollouts: int, passing: float, rng: np.random.Generator) -> str:
    """One batch, stored as an ingest stores it. `passing`: the chance of a reward of 1."""
    digest = hashlib.sha256(str(step).encode()).hexdigest()
    with write(engine) as session:
        run_id = runs.get_or_create(session, "templates").id
        upload = uploads.create(
            session, filename=f"{step}.jsonl", bytes=1, sha256=digest, files=[], request={}, state="queued"
        )
        jobs.begin_attempt(session, Upload, upload.id, "benchmark")
        batch = batches.begin(
            session, run_id=run_id, upload_id=upload.id, format="canonical-jsonl", step=step, split="train"
        )
        parts = [part(batch.id, group, passing, rng) for group in range(rollouts // GROUP)]
        batches.add_parts(session, parts)
        fields = dict.fromkeys(("group_id", "prompt", "response", "reward", "data_source"), "recorded")
        light = rollout_rows.columns(session, batch.id)
        statistics, said = findings.assess(session, batch.id, fields, {}, {}, light)
        batches.finish(session, batch.id, statistics=statistics, findings=said, fields=fields, light=light)
        jobs.finish(session, Upload, upload.id, "succeeded")
        return batch.id


def part(batch_id: str, group: int, passing: float, rng: np.random.Generator) -> NewPart:
    source = f"task{group % TASKS}"
    rewards = (rng.random(GROUP) < passing).astype(float).tolist()
    lengths = rng.integers(100, 4000, GROUP).tolist()
    rows = [
        row(group * GROUP + i, reward, length, source)
        for i, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]
    prompt = {"group_id": f"g{group}", "prompt": f"prompt {group}", "data_source": source}
    return NewPart(batch_id, group, 0, prompt, rows, {})


def row(index: int, reward: float, length: int, source: str) -> dict[str, Any]:
    return {
        "index": index,
        "row": index + 1,
        "reward": reward,
        "length": length,
        "valid": length,
        "response": f"response {index}",
        "digest": f"{index:032x}",
        "data_source": source,
    }


def estimate_all(folder: Path, batch_ids: Sequence[str]) -> list[str]:
    """An estimate of each batch, by a server and its worker."""
    made = []
    with server.serve(folder) as running, httpx.Client(base_url=running.url, timeout=120) as client:
        for batch_id in batch_ids:
            address = f"/api/v1/batches/{batch_id}/estimates?wait=60"
            body = client.post(address, json={"convention": "grpo/verl"}).raise_for_status().json()
            if body["state"] != "succeeded":
                raise SystemExit(f"an estimate ended as {body['state']}: {body['error']}")
            made.append(body["id"])
    return made


def copy(engine: Engine, batch_id: str, estimate_id: str, run_id: str, step: int) -> tuple[str, str]:
    """The same batch as another step of the run: its id, and its estimate's."""
    old = {"batch": batch_id, "estimate": estimate_id}
    new = {"batch": new_id(), "estimate": new_id(), "upload": new_id(), "run": run_id}
    with write(engine) as session:
        old["upload"] = session.get_one(Batch, batch_id).upload_id
        for name, ids in COPIED:
            session.execute(copied(Base.metadata.tables[name], ids, old, new))
        digest = hashlib.sha256(f"{run_id} {step}".encode()).hexdigest()
        now = time.time()
        session.execute(update(Batch).where(Batch.id == new["batch"]).values(step=step, created=now))
        session.execute(update(Upload).where(Upload.id == new["upload"]).values(sha256=digest, created=now))
    return new["batch"], new["estimate"]


def copied(table: Table, ids: dict[str, str], old: dict[str, str], new: dict[str, str]) -> Any:
    """The statement that copies a table's rows of the old ids under the new ones."""
    key = next(column for column, kind in ids.items() if kind in old)
    columns = [
        literal(new[ids[column.name]]).label(column.name) if column.name in ids else column
        for column in table.columns
    ]
    source = select(*columns).where(table.c[key] == old[ids[key]])
    return insert(table).from_select([column.name for column in table.columns], source)
