"""Damaged uploads by the hundred: each ends in records, sentences or a limit, never in a surprise.

`VANTAGE_FUZZ_FILES` says how many (`make fuzz`: 10,000), `VANTAGE_FUZZ_SEED` which. What goes wrong is kept
in .fuzz/ with its number: `python -m tests.ingest.fuzzing.child SEED NUMBER NUMBER+1 1 FOLDER` repeats it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.ingest.fuzzing.cases import case

ROOT = Path(__file__).parents[2]
FILES = int(os.environ.get("VANTAGE_FUZZ_FILES", "500"))
SEED = int(os.environ.get("VANTAGE_FUZZ_SEED", "1"))
KEPT = ROOT / ".fuzz"
PROCESSES = 2
DEATHS = 3  # processes that end by themselves, after which the rest is left out
SHOWN = 10


def started(first: int, offset: int, folder: Path) -> "subprocess.Popen[str]":
    """A process that reads every `PROCESSES`-th upload from `first` on."""
    folder.mkdir(exist_ok=True)
    numbers = [str(number) for number in (SEED, first, FILES, PROCESSES)]
    command = [sys.executable, "-W", "error", "-m", "tests.ingest.fuzzing.child", *numbers, str(folder)]
    errors = folder.with_suffix(".errors").open("w")
    with errors:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)


def followed(child: "subprocess.Popen[str]", offset: int, folder: Path, wrong: dict[int, str]) -> int:
    """How many uploads the process read, and those after it where it ended early; `wrong` is added to."""
    begun, last = 0, offset
    for _ in range(DEATHS):
        out, _ = child.communicate()
        for message in map(json.loads, out.splitlines()):
            if "begun" in message:
                begun, last = begun + 1, message["begun"]
            else:
                wrong[message["number"]] = "\n".join(message["wrong"])
        if child.returncode == 0:
            return begun
        said = folder.with_suffix(".errors").read_text()[-3000:]
        wrong[last] = f"ended the process with {child.returncode}: a hang or too much memory\n{said}"
        child = started(last + PROCESSES, offset, folder)
    child.kill()
    child.communicate()
    return begun


def keep(number: int, folder: Path) -> None:
    """Save the files of an upload for whoever looks into it."""
    made = case(SEED, number, folder)
    for name, data in made.files.items():
        path = KEPT / f"{SEED}-{number}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_damage_never_surprises(tmp_path: Path) -> None:
    folders = [tmp_path / f"{offset}" for offset in range(PROCESSES)]
    children = [started(offset, offset, folder) for offset, folder in enumerate(folders)]
    wrong: dict[int, str] = {}
    begun = sum(followed(child, offset, folders[offset], wrong) for offset, child in enumerate(children))
    for number in wrong:
        keep(number, tmp_path)
    said = [f"seed {SEED}, upload {number}: {wrong[number]}" for number in sorted(wrong)]
    assert not said, f"{len(said)} of {begun} uploads, kept in .fuzz/\n" + "\n".join(said[:SHOWN])
    assert begun == FILES
