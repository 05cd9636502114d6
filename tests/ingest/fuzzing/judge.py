"""What must hold of whatever an upload gives: whole records, plain sentences, and no row lost."""

import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import AppError
from app.ingest import File, Options, read_all
from app.ingest.record import Header, Item, Problem, Rollout
from app.intake import Chunk, Intake, Plan
from app.settings import Settings
from tests.ingest.fuzzing.cases import Case
from tests.ingest.reading import Outcome

#: Processor seconds that reading one damaged sample may take.
SECONDS = 5.0
#: Formats of which every line, or every element of an array, is one row.
BY_LINE = ("canonical-jsonl", "verl-jsonl")
BY_TABLE = ("canonical-parquet", "trl-parquet", "verl-generation")
SERVER = re.compile(r"Traceback|site-packages|\.py\b[\"', ]*line|<[a-z_.]+ object at|0x[0-9a-f]{9,}|Errno")
LONGEST = 2100
MOST_ROWS = 100_000  # a footer may declare any number


@dataclass
class Taken:
    """`outcome` of an upload that was taken by the store's intake, or the sentence that refused all of it."""

    outcome: Outcome = field(default_factory=Outcome)
    refusal: str | None = None
    stored: int = 0
    seconds: float = 0.0


def take(case: Case, folder: Path) -> Taken:
    """Read the upload as a job does, up to what it would store. Raises what surprises."""
    files = []
    for number, (name, data) in enumerate(case.files.items()):
        path = folder / f"{number}"
        path.write_bytes(data)
        files.append(File(path, name))
    settings = Settings(data_dir=folder, max_expanded_bytes=64 << 20, pickle_seconds=SECONDS)
    taken, began = Taken(), time.process_time()
    try:
        _feed(taken, read_all(files, Options(), settings))
    except AppError as error:
        taken.refusal = error.detail
    taken.seconds = time.process_time() - began
    return taken


def _feed(taken: Taken, items: Iterator[Item]) -> None:
    intake = Intake("upload", {"default_run": "run"}, Plan(1 << 20, 1 << 18))
    for item in items:
        match item:
            case Header():
                taken.outcome.headers.append(item)
            case Rollout():
                taken.outcome.rollouts.append(item)
            case Problem():
                taken.outcome.problems.append(item)
        for chunk in intake.take(item):
            taken.stored += _stored(chunk)
    for chunk in intake.end():
        taken.stored += _stored(chunk)


def _stored(chunk: Chunk) -> int:
    """How many rows the chunk stores; what it stores as JSON has to be JSON."""
    for part in chunk.parts:
        for row in [*part.rollouts, part.prompt or {}]:
            for value in row.values():
                if isinstance(value, dict | list):
                    json.dumps(value)
    return sum(len(part.rollouts) for part in chunk.parts)


def judge(case: Case, taken: Taken, folder: Path) -> list[str]:
    """What is wrong with it, in words."""
    wrong = list(_sentences(taken, folder))
    if taken.seconds > SECONDS:
        wrong.append(f"took {taken.seconds:.1f} s of the processor")
    if taken.refusal is None:
        wrong += records(taken.outcome)
        if taken.stored != len(taken.outcome.rollouts):
            wrong.append(f"{taken.stored} rows stored of {len(taken.outcome.rollouts)} that were read")
        wrong += _lost(case, taken.outcome)
    return wrong


def _sentences(taken: Taken, folder: Path) -> Iterator[str]:
    said = [taken.refusal] if taken.refusal is not None else [p.message for p in taken.outcome.problems]
    own = (str(folder), str(Path(__file__).parents[3]))
    for sentence in said:
        if not sentence.strip() or len(sentence) > LONGEST:
            yield f"no sentence: {sentence[:200]!r}"
        elif SERVER.search(sentence) or any(path in sentence for path in own):
            yield f"speaks of the server: {sentence[:500]!r}"
        elif not sentence.isprintable():
            yield f"not printable: {sentence[:500]!r}"
    if any(not problem.code for problem in taken.outcome.problems):
        yield "a problem without a code"


def records(outcome: Outcome) -> Iterator[str]:
    """What is wrong with the rows that were taken, and with what is said of the others."""
    # tinker-cookbook logs a response's length, not its text.
    textless = any(header.format.startswith("tinker") for header in outcome.headers)
    for rollout in outcome.rollouts:
        for text in _record(rollout, textless):
            yield f"row {rollout.row}: {text}"
    errors = [problem for problem in outcome.problems if problem.severity == "error"]
    if not outcome.rollouts and not errors:
        yield "nothing taken and nothing said"
    rejected = [(problem.file, problem.row) for problem in errors if problem.row]
    if len(rejected) != len(set(rejected)):
        yield "a row rejected twice"
    if both := set(rejected) & {(rollout.file, rollout.row) for rollout in outcome.rollouts}:
        yield f"taken and rejected: {sorted(both, key=str)[:3]}"


def _record(rollout: Rollout, textless: bool) -> Iterator[str]:
    if not rollout.group_id or len(rollout.digest) != 32:
        yield "no group or digest"
    if not {array.shape for array in rollout.tokens.values()} <= {(rollout.length,)}:
        yield "arrays of several lengths"
    if not textless and rollout.response is None and rollout.length is None:
        yield "no response"
    if rollout.reward is not None and type(rollout.reward) is not float:
        yield f"reward is a {type(rollout.reward)}"
    if any(type(value) not in (int, type(None)) for value in (rollout.step, rollout.sample_index)):
        yield "step or sample_index is no whole number"
    texts = (rollout.split, rollout.data_source, rollout.prompt, rollout.response, rollout.sample_id)
    if any(type(text) not in (str, type(None)) for text in texts):
        yield "a text is none"


def _lost(case: Case, outcome: Outcome) -> Iterator[str]:
    """Rows of a single file that are neither taken nor named as not taken, where they can be counted."""
    if len(case.files) > 1 or len(outcome.headers) != 1:
        return
    if any(problem.severity == "error" and problem.row is None for problem in outcome.problems):
        return
    rows = counted(case.files[case.target], outcome.headers[0].format)
    known = {rollout.row for rollout in outcome.rollouts}
    known |= {
        p.row for p in outcome.problems if p.row and (p.severity == "error" or p.code == "duplicate_row")
    }
    if missing := sorted(rows - known):
        yield f"rows {missing[:5]} are lost without a word"


def counted(data: bytes, format: str) -> set[int]:
    """Numbers of the rows in the file; empty where they cannot be told without its reader."""
    if format in BY_LINE and not data.startswith((b"PK", b"\x1f\x8b", b"\x28\xb5")):
        text = data.removeprefix(b"\xef\xbb\xbf")
        if text.lstrip()[:1] == b"[":
            return _elements(text)
        rows = {n for n, line in enumerate(text.split(b"\n"), 1) if line.strip(b" \t\r\n\0\v\f")}
        return rows - {min(rows, default=0)} if b'"_header"' in text[:200] else rows
    if format in BY_TABLE and data.startswith(b"PAR1"):
        try:
            rows = pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
            return set(range(1, rows + 1)) if rows <= MOST_ROWS else set()
        except (pa.ArrowException, OSError):
            return set()
    return set()


def _elements(text: bytes) -> set[int]:
    try:
        return set(range(1, len(json.loads(text)) + 1))
    except (ValueError, RecursionError):
        return set()
