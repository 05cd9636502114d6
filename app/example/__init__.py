"""The built-in examples as files: a run with a turn for the worse, and two batches to check by hand."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import zstandard

from app.example import small, story


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
