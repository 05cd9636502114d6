"""`vantage ingest`: the same way in as an upload, for files that lie on this machine."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from app.errors import BadRequest
from app.jobs import FINAL, connect, wait_for
from app.settings import Settings
from app.uploads import Options, Spooled, accept, discard, receipt, spool
from app.worker import working
from storage import workers
from storage.database import make_engine, read
from storage.models import Analysis, Batch, Estimate

BLOCK = 1 << 20


def ingest(settings: Settings, paths: Sequence[Path], options: Options) -> dict[str, Any]:
    """Spool the files, queue the upload, wait for its end: the receipt.

    A worker that lives does it; where there is none, this process works until the upload, and the estimates
    and analyses that follow from it, are done.
    """
    engine = make_engine(settings.url)
    with closing(connect(settings)) as jobs:
        files = asyncio.run(spool_all(named(paths), settings))
        upload_id, _ = accept(engine, jobs, settings, files, options)
        with read(engine) as session:
            attended = workers.seen(session, time.time() - settings.dead_after_seconds)
        if attended:
            wait_until_done(engine, upload_id)
        else:
            with working(settings):
                wait_until_done(engine, upload_id)
                wait_for_what_follows(engine, upload_id)
        with read(engine) as session:
            return receipt(session, upload_id)


def named(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each file with the name it is shown under; a folder stands for its files and leads their names."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
            found += [(p, str(p.relative_to(path.resolve().parent))) for p in map(Path.resolve, inside)]
        else:
            found.append((path, path.name))
    if not found:
        raise BadRequest("There is no file in the folder: name the files, or another folder.")
    return found


async def spool_all(files: Sequence[tuple[Path, str]], settings: Settings) -> list[Spooled]:
    done: list[Spooled] = []
    try:
        for path, name in files:
            done.append(await spool(blocks(path), name, settings, already=sum(file.bytes for file in done)))
    except BaseException:
        discard(done, settings)
        raise
    return done


async def blocks(path: Path) -> AsyncIterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


def wait_until_done(engine: Engine, upload_id: str) -> None:
    while wait_for(engine, "ingest", upload_id, 60) not in FINAL:
        pass


def wait_for_what_follows(engine: Engine, upload_id: str) -> None:
    """Until no estimate and no analysis of the upload's batches is open."""
    models: tuple[type[Estimate] | type[Analysis], ...] = (Estimate, Analysis)
    open_ones = [
        select(func.count())
        .select_from(model)
        .join(Batch, Batch.id == model.batch_id)
        .where(Batch.upload_id == upload_id, model.state.not_in(FINAL))
        for model in models
    ]
    while True:
        with read(engine) as session:
            if not any(session.scalar(statement) for statement in open_ones):
                return
        time.sleep(0.1)


def describe(body: dict[str, Any], shown: int = 20) -> Iterator[str]:
    """The receipt in lines for a terminal."""
    counts = body["counts"]
    yield f"{body['filename']}: {body['state']}, {body['format'] or 'format not recognised'}"
    yield f"{counts['rows']} rows, {counts['accepted']} accepted, {counts['rejected']} rejected"
    for batch in body["batches"]:
        step = "" if batch["step"] is None else f" step {batch['step']}"
        split = f" {batch['split']}" if batch["split"] else ""
        size = f"{batch['rollouts']} rollouts in {batch['groups']} groups"
        yield f"  {batch['run']}{step}{split}: {size} ({batch['id']})"
    for problem in body["problems"][:shown]:
        place = "" if problem["row"] is None else f"row {problem['row']}: "
        yield f"  {problem['severity']}: {place}{problem['message']}"
    more = sum(body["problem_counts"].values()) - min(shown, len(body["problems"]))
    if more > 0:
        yield f"  and {more} more problems"
    if body["error"]:
        yield f"  {body['error']}"
