"""Canonical rows as a batch that nobody keeps: read, stored and checked as an upload is, then forgotten."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from app import findings, reconciling
from app.ingest import read_all
from app.ingest.options import Options
from app.ingest.record import File
from app.intake import Intake, Plan
from app.recorded_rows import Row
from app.settings import Settings
from app.storing import put_chunk
from storage import uploads
from storage.base import Base
from storage.database import WriteSession, make_engine, write

#: A convention and a mistake, or none.
Made = tuple[str, str | None]
PLAN = Plan(buffer_bytes=1 << 28, chunk_bytes=1 << 26)


class Discard(Exception):
    """Leaves a transaction without keeping what it wrote."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A database of its own in a folder that goes away with it."""

    engine: Engine
    folder: Path
    settings: Settings

    def findings(
        self, header: Mapping[str, Any], rows: Sequence[Row], name: str, reconciled: bool, made: Made | None
    ) -> list[dict[str, Any]]:
        """The findings of an upload of these rows, as far as they are one batch. `reconciled`: also whether
        the recorded advantages are what they should be, which takes longer; none where they cannot be
        `made`."""
        with self._stored(header, rows, name) as (session, shelf):
            if made is not None and not _can_be(session, shelf, made):
                return []
            fields = shelf.provenance()
            there = reconciled and reconciling.recorded_in(fields)
            answer = reconciling.answer(session, shelf.id, shelf.header, shelf.format) if there else {}
            return findings.run(session, shelf.id, fields, shelf.header, answer)

    def reconciliation(
        self, header: Mapping[str, Any], rows: Sequence[Row], name: str, made: Made | None = None
    ) -> dict[str, Any] | None:
        """What made the recorded advantages of these rows; None where that cannot be `made`."""
        with self._stored(header, rows, name) as (session, shelf):
            if made is not None and not _can_be(session, shelf, made):
                return None
            if not reconciling.recorded_in(shelf.provenance()):
                return reconciling.nothing(shelf.header, shelf.format, {})
            return reconciling.answer(session, shelf.id, shelf.header, shelf.format)

    @contextmanager
    def _stored(
        self, header: Mapping[str, Any], rows: Sequence[Row], name: str
    ) -> Iterator[tuple[WriteSession, Any]]:
        path = self.folder / name
        path.write_bytes(lines(header, rows))
        try:
            with write(self.engine) as session:
                yield session, store(session, path, self.settings)
                raise Discard
        except Discard:
            pass


def _can_be(session: WriteSession, shelf: Any, made: Made) -> bool:
    return reconciling.can_be(session, shelf.id, shelf.header, shelf.format, *made)


def store(session: WriteSession, path: Path, settings: Settings) -> Any:
    """The file's first batch, stored in the caller's transaction, not ready. Raises ValueError for none."""
    size = path.stat().st_size
    upload = uploads.create(
        session, filename=path.name, bytes=size, sha256="", files=[], request={}, state="running"
    )
    intake = Intake(upload.id, {"run": "reproducer", "default_run": None}, PLAN)
    reading = read_all([File(path, path.name)], Options(format="canonical-jsonl"), settings)
    try:
        for item in reading:
            for chunk in intake.take(item):
                put_chunk(session, upload.id, chunk)
        for chunk in intake.end():
            put_chunk(session, upload.id, chunk)
    finally:
        reading.close()
    if not intake.shelves:
        raise ValueError("no row can be read")
    return next(iter(intake.shelves.values()))


def lines(header: Mapping[str, Any], rows: Sequence[Row]) -> bytes:
    """Canonical JSONL, header line first. A reward component that is not finite stands as Python has it."""
    whole = [{"_header": dict(header)}, *rows]
    return b"".join(json.dumps(line, ensure_ascii=True).encode() + b"\n" for line in whole)


@contextmanager
def replay(settings: Settings) -> Iterator[Replay]:
    """A `Replay` for one search."""
    with tempfile.TemporaryDirectory(prefix="vantage-") as folder:
        engine = make_engine(f"sqlite:///{folder}/replay.db", pool_size=1)
        try:
            Base.metadata.create_all(engine)
            yield Replay(engine, Path(folder), settings)
        finally:
            engine.dispose()
