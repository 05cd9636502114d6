"""Reading a file the way a job does, with everything that came out of it sorted by kind."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.ingest import File, Header, Options, Problem, Rollout, read_all
from app.settings import Settings

SAMPLES = Path(__file__).parent.parent / "data" / "samples"


@dataclass
class Outcome:
    headers: list[Header] = field(default_factory=list)
    rollouts: list[Rollout] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def said(self, code: str) -> list[Problem]:
        return [problem for problem in self.problems if problem.code == code]

    def only(self, code: str) -> Problem:
        """The one problem with this code."""
        (problem,) = self.said(code)
        return problem

    def sentence(self) -> str:
        """The one thing said of a file that was refused."""
        assert not self.rollouts
        (error,) = [
            problem for problem in self.problems if problem.severity == "error" and problem.row is None
        ]
        return error.message

    @property
    def errors(self) -> list[int | None]:
        return [problem.row for problem in self.problems if problem.severity == "error"]

    @property
    def groups(self) -> dict[str, list[int]]:
        """Group id -> rows of its members."""
        found: dict[str, list[int]] = {}
        for rollout in self.rollouts:
            assert rollout.group_id is not None
            found.setdefault(rollout.group_id, []).append(rollout.row)
        return found


def read(
    *paths: Path, settings: Settings | None = None, names: Sequence[str] = (), **options: Any
) -> Outcome:
    files = [File(path, name) for path, name in zip(paths, names or [p.name for p in paths], strict=True)]
    outcome = Outcome()
    for item in read_all(files, Options(**options), settings or Settings()):
        match item:
            case Header():
                outcome.headers.append(item)
            case Rollout():
                outcome.rollouts.append(item)
            case Problem():
                outcome.problems.append(item)
    return outcome


def sample(name: str, **options: Any) -> Outcome:
    return read(SAMPLES / name, **options)


def jsonl(folder: Path, rows: Iterable[Any], name: str = "rows.jsonl") -> Path:
    """A file with one line per row; text and bytes are written as they are."""
    path = folder / name
    lines = (
        row if isinstance(row, bytes) else (row if isinstance(row, str) else json.dumps(row)).encode()
        for row in rows
    )
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def read_rows(folder: Path, *rows: Any, **options: Any) -> Outcome:
    return read(jsonl(folder, rows), **options)
