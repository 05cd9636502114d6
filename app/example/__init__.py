"""The built-in examples as files: a run with a turn for the worse, and two batches to check by hand."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import zstandard
from sqlalchemy import Engine

from app.example import small, story
from app.jobs import Jobs
from app.settings import Settings
from app.uploads import Options, Spooled, accept, spool


def lines(header: dict[str, Any], rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Canonical JSONL, header line first."""
    yield orjson.dumps({"_header": header}) + b"\n"
    for row in rows:
        yield orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def _header(run: str) -> dict[str, Any]:
    kept = ("schema", "version", "framework", "adv_estimator", "norm_adv_by_std_in_grpo", "provenance")
    return {**{name: story.HEADER[name] for name in kept}, "run": run}


def example_files(folder: Path) -> list[Path]:
    """Writes the examples below `folder` (made if need be); the same bytes each time.

    `five-rewards.jsonl`, `two-tasks.jsonl` and `example/step_00.jsonl.zst` … `step_23.jsonl.zst`; about 8 MB.
    """
    run_folder = folder / "example"
    run_folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "five-rewards.jsonl", folder / "two-tasks.jsonl"]
    for path, rows in zip(files, (small.five_rewards(), small.two_tasks()), strict=True):
        path.write_bytes(b"".join(lines(_header(path.stem), rows)))
    compress = zstandard.ZstdCompressor(level=3).compress
    for step in range(story.STEPS):
        path = run_folder / f"step_{step:02d}.jsonl.zst"
        path.write_bytes(compress(b"".join(lines(story.HEADER, story.rows(step)))))
        files.append(path)
    return files


def load(engine: Engine, jobs: Jobs, settings: Settings) -> list[str]:
    """Uploads the examples like any other files; the ids of the three uploads.

    Safe to repeat: the bytes are the same, so the uploads are. Not for calling on an event loop.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = example_files(folder)
        uploads = [[path] for path in files if path.parent == folder]
        uploads.append([path for path in files if path.parent != folder])
        spooled = [asyncio.run(_spool(paths, folder, settings)) for paths in uploads]
    return [accept(engine, jobs, settings, group, Options())[0] for group in spooled]


async def _spool(paths: list[Path], folder: Path, settings: Settings) -> list[Spooled]:
    return [await spool(_bytes(path), str(path.relative_to(folder)), settings) for path in paths]


async def _bytes(path: Path) -> AsyncIterator[bytes]:
    yield path.read_bytes()
