"""Batches as the product makes them: canonical rows through the reader and the intake into the database."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from app import findings
from app.ingest import read_all
from app.ingest.options import Options
from app.ingest.record import File
from app.intake import Intake, Plan
from app.settings import Settings
from storage import batches, runs, uploads
from storage.database import read, write
from tests.builders import make_upload
from tests.findings.build import CASES, MEMBERS

#: Names of the diagnosis cases for fields of the canonical schema.
RENAMED = {
    "group": "group_id",
    "tokens": "response_tokens",
    "token_rewards": "token_level_rewards",
    "logprobs": "old_log_probs",
}


def canonical(number: str) -> list[dict[str, Any]]:
    """The rows of a diagnosis case in the canonical schema."""
    (path,) = CASES.glob(f"{number}-*.json")
    rows = json.loads(path.read_text())["input"]["rows"]
    return [{RENAMED.get(name, name): value for name, value in row.items()} for row in rows]


def found(
    engine: Engine,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    header: dict[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """The findings of the rows, by code."""
    path = folder / "rows.jsonl"
    lines = [{"_header": {"schema": "rollout-batch", **(header or {})}}, *rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with write(engine) as session:
        (batch_id,) = ingest(session, path)
    with read(engine) as session:
        said = findings.run(session, batch_id)
    for each in said:
        assert set(each) == MEMBERS
        assert all(each[name].endswith(".") for name in ("title", "explanation", "remedy")), each
    json.dumps(said, allow_nan=False)
    return {each["code"]: each for each in said}


def ingest(session: Any, path: Path) -> list[str]:
    """Store a file's rows as ready batches; their ids."""
    upload = make_upload(session.get_bind(), path.name)
    intake = Intake(upload.id, {"run": "run", "default_run": None}, Plan(1 << 24, 1 << 20))
    reading = read_all([File(path, path.name)], Options(), Settings())
    chunks = [chunk for item in reading for chunk in intake.take(item)] + list(intake.end())
    for chunk in chunks:
        for shelf in chunk.begun:
            batches.begin(
                session, run_id=runs.get_or_create(session, shelf.run).id, upload_id=upload.id,
                format=shelf.format, step=shelf.step, split=shelf.split, id=shelf.id, header=shelf.header,
            )  # fmt: skip
        for part in chunk.parts:
            batches.add_part(
                session, part.batch_id, part.group_no, part.part, part.prompt, part.rollouts, part.arrays
            )
        uploads.add_problems(session, upload.id, chunk.problems)
    for shelf in intake.shelves.values():
        batches.finish(session, shelf.id, fields=shelf.provenance())
    return [shelf.id for shelf in intake.shelves.values()]
