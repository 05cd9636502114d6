"""Rows through the same functions as an upload: reader, intake, database, verdict and findings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from app import findings, reconciling
from storage import batches, runs
from storage.database import make_engine, read, write
from tests import databases
from tests.findings.ingested import ingest

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of one batch: the verdict as the API gives it, and the findings, worst first."""

    verdict: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Shop:
    """A database and a folder that batches go through, one after the other."""

    engine: Engine
    folder: Path

    def said(self, rows: Sequence[Row], header: Mapping[str, Any] | None = None) -> Said:
        """What an upload of these rows would be told; nothing of it is kept."""
        path = self.folder / "rows.jsonl"
        head = [{"_header": {"schema": "rollout-batch", "version": 1, **header}}] if header else []
        path.write_text("".join(json.dumps(line) + "\n" for line in [*head, *rows]))
        with write(self.engine) as session:
            (batch_id,) = ingest(session, path)
        with read(self.engine) as session:
            batch = batches.get_any(session, batch_id)
            assert batch is not None
            verdict = reconciling.answer(session, batch_id, batch.header or {}, batch.format)
            said = findings.run(session, batch_id, reconciliation=verdict)
        with write(self.engine) as session:
            runs.delete(session, batch.run_id)
        json.dumps([verdict, said], allow_nan=False)
        return Said(verdict, said)


@contextmanager
def shop(folder: Path) -> Iterator[Shop]:
    """A fresh SQLite database in the folder."""
    engine = make_engine(databases.copy_sqlite(databases.sqlite_template(folder), folder))
    try:
        yield Shop(engine, folder)
    finally:
        engine.dispose()
