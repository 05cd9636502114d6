"""A data folder with a queue, and a worker in the test's own process: the real job bodies, one by one.

    with installation(tmp_path, template) as place:
        upload_id, _ = place.upload(b'{"prompt": "p", "response": "r", "reward": 1}\\n', "a.jsonl")
        place.work()

The queue's entries are written as always; only the engine that would take them up is not started.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from app.cache import BatchCache
from app.jobs import KINDS, Jobs, connect, model_of, prepare
from app.settings import Settings
from app.tasks import Work
from app.uploads import Options, accept, receipt, spool
from app.workflows import Context, perform
from storage.database import make_engine, read, write


@dataclass(frozen=True, slots=True)
class Place:
    """`executor` names the worker that `work` plays."""

    settings: Settings
    engine: Engine
    jobs: Jobs
    executor: str = "test-worker"

    def upload(self, content: bytes, filename: str = "rollouts.jsonl", **options: Any) -> tuple[str, bool]:
        """Spool and accept one file, as the API does: (id, created)."""

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 1 << 16):
                yield content[start : start + (1 << 16)]

        spooled = asyncio.run(spool(chunks(), filename, self.settings))
        return accept(self.engine, self.jobs, self.settings, [spooled], Options(**options))

    def commit(self, work: Work) -> Any:
        """A step outside the engine: committed once, never replayed."""
        with write(self.engine) as session:
            return work(session)

    def work(self) -> int:
        """Do every queued job, also those that jobs queue; how many."""
        done = 0
        while now := self.work_once():
            done += now
        return done

    def work_once(self) -> int:
        """Do the jobs that are queued now; how many."""
        context, waiting = self.context(), self.queued()
        for kind, id, revision in waiting:
            perform(context, kind, id, revision, self.commit)
        return len(waiting)

    def context(self, executor: str | None = None) -> Context:
        """What a worker of that name would run jobs with."""
        cache = BatchCache(self.settings.cache_bytes)
        return Context(self.engine, self.jobs, self.settings, "cpu", executor or self.executor, cache)

    def queued(self) -> list[tuple[Any, str, int]]:
        """The queued jobs: (kind, id, revision), oldest first."""
        found: list[tuple[Any, str, int]] = []
        with read(self.engine) as session:
            for kind in KINDS:
                model = model_of(kind)
                rows = select(model.id, model.revision).where(model.state == "queued").order_by(model.created)
                found += [(kind, row.id, row.revision) for row in session.execute(rows)]
        return found

    def ingest(self, content: bytes, filename: str = "rollouts.jsonl", **options: Any) -> dict[str, Any]:
        """Upload, do all the work, and give the receipt."""
        upload_id, _ = self.upload(content, filename, **options)
        self.work()
        with read(self.engine) as session:
            return receipt(session, upload_id)


def make_template(folder: Path) -> Path:
    """A data folder with an empty database, the job engine's tables in it. To be copied."""
    prepare(Settings(data_dir=folder, database_url=None))
    return folder


@contextmanager
def installation(folder: Path, template: Path, **settings: Any) -> Iterator[Place]:
    """A fresh data folder, engine and queue."""
    data_dir = folder / "data"
    shutil.copytree(template, data_dir)
    chosen = Settings(data_dir=data_dir, database_url=None, **settings)
    engine = make_engine(chosen.url)
    try:
        with closing(connect(chosen)) as jobs:
            yield Place(chosen, engine, jobs)
    finally:
        engine.dispose()
