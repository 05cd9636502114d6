"""From bytes to an accepted upload: stream to a spool file, then row and job in one transaction.

Success means committed: the spool file is on disk (fsync) before the row that names it, and the row is there
together with its job or not at all.
"""

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sqlalchemy import Engine, select

from app.attempts import said
from app.errors import BadRequest, Busy, NotFound, TooLarge, Unprocessable
from app.ingest.options import Options
from app.jobs import FINAL, Jobs, progress
from app.lifecycle import request_cancel
from app.settings import Settings
from app.upkeep import take_up
from storage import runs, tokenizers, transfers, unchecked, uploads
from storage.database import AnySession, WriteSession, hold, read, write
from storage.ids import new_id
from storage.models import Batch, Run, Upload

__all__ = [
    "Options", "Spooled", "accept", "cancel", "default_run", "discard", "receipt", "record", "spool", "sweep",
]  # fmt: skip

ENCODINGS = ("identity", "gzip", "x-gzip", "zstd")
SHOWN_OF_FILE = ("filename", "bytes", "sha256", "encoding")
FSYNC_FOLDER = hasattr(os, "O_DIRECTORY")
#: A spool file that no upload names and nobody wrote to for so long was left by a killed process.
ORPHAN_SECONDS = 3600.0
EMPTY_RUN_SECONDS = 86_400.0  # a run made so long ago, and still without a batch, is deleted


@dataclass(frozen=True, slots=True)
class Spooled:
    """One file on disk: `bytes` and `sha256` are of what was sent, `encoding` its Content-Encoding."""

    filename: str
    bytes: int
    sha256: str
    spool: str
    encoding: str | None = None


async def spool(
    chunks: AsyncIterable[bytes],
    filename: str,
    settings: Settings,
    encoding: str | None = None,
    already: int = 0,
) -> Spooled:
    """Stream one file to the spool folder, hashing as it goes. `already`: bytes of the files before it.

    Raises TooLarge, BadRequest (encoding); leaves no file behind when it fails or the client goes away.
    """
    encoding = check_encoding(encoding)
    name = new_id()
    path = settings.spool_dir / name
    digest, size, limit = hashlib.sha256(), 0, settings.max_upload_bytes
    try:
        with needing_space(), open(path, "wb", buffering=1 << 20) as file:
            async for chunk in chunks:
                size += len(chunk)
                if already + size > limit:
                    raise TooLarge(
                        f"The upload is larger than {limit:,} bytes (VANTAGE_MAX_UPLOAD_BYTES). "
                        "Send it in parts, or compressed with gzip or zstd."
                    )
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        await asyncio.to_thread(fsync_folder, settings.spool_dir)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Spooled(clean_name(filename), size, digest.hexdigest(), name, encoding)


@contextmanager
def needing_space() -> Iterator[None]:
    """Raises Busy where what is written in it finds no space."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Busy(
                "The data folder has no space left for this upload. Make room and send it again."
            ) from error
        raise


def check_encoding(encoding: str | None) -> str | None:
    """The Content-Encoding as recorded. Raises BadRequest where it cannot be undone."""
    name = (encoding or "identity").strip().lower()
    if name not in ENCODINGS:
        raise BadRequest(
            f"Content-Encoding {name!r} is not understood: use gzip or zstd, or send the file as it is."
        )
    return None if name == "identity" else name.removeprefix("x-")


def clean_name(filename: str) -> str:
    """The name as shown: forward slashes, no drive, no leading slash, no "..", at most 255 characters."""
    parts = [part for part in filename.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if parts and parts[0].endswith(":"):
        parts = parts[1:]
    printable = "".join(c for c in "/".join(parts) if c.isprintable())
    return printable[-255:] or "upload"


def fsync_folder(folder: Path) -> None:
    """The folder's entries are on disk when this returns."""
    if not FSYNC_FOLDER:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(files: Iterable[Spooled], settings: Settings) -> None:
    """Delete spool files that no upload will name."""
    for file in files:
        (settings.spool_dir / file.spool).unlink(missing_ok=True)


def accept(
    engine: Engine, jobs: Jobs, settings: Settings, files: Sequence[Spooled], options: Options
) -> tuple[str, bool]:
    """Record the upload and queue its ingest in one transaction: (id, created).

    The same bytes with the same options are the earlier upload: its id, False, and the new files are deleted.
    """
    with write(engine) as session:
        id, created = record(session, jobs, files, options)
    if not created:
        discard(files, settings)
    return id, created


def record(session: WriteSession, jobs: Jobs, files: Sequence[Spooled], options: Options) -> tuple[str, bool]:
    """`accept` in the caller's transaction; where the upload was there before, the files are the caller's."""
    if not files:
        raise BadRequest("No file was sent: put it in the request body, or in the form field 'file'.")
    request = asdict(Options.from_request(asdict(options))) | {
        # The name decides nothing where the caller gives the run: the same bytes are then the same upload.
        "default_run": None if options.run else default_run(files)
    }
    digest = joint_digest(files)
    hold(session, f"upload {digest}")
    request |= tokenizer_of(session, options)
    same = uploads.find_same(session, digest, request)
    if same is not None:
        take_up(session, jobs, "ingest", same.id)
        return same.id, False
    upload = uploads.create(
        session,
        filename=joint_name(files),
        bytes=sum(file.bytes for file in files),
        sha256=digest,
        files=[asdict(file) for file in files],
        request=request,
    )
    jobs.enqueue(session, "ingest", upload.id, upload.revision)
    return upload.id, True


def tokenizer_of(session: AnySession, options: Options) -> dict[str, Any]:
    """Which content the tokenizer has that was asked for. Raises Unprocessable where there is none."""
    if options.tokenizer in (None, "none"):
        return {}
    found = tokenizers.get(session, str(options.tokenizer))
    if found is None:
        raise Unprocessable(
            f"There is no tokenizer {options.tokenizer!r}. PUT /api/v1/tokenizers/NAME uploads a "
            "tokenizer.json, GET /api/v1/tokenizers lists them."
        )
    return {"tokenizer_sha256": found.sha256}


def joint_digest(files: Sequence[Spooled]) -> str:
    """SHA-256 of the file, or of the files' names and digests where there are several."""
    if len(files) == 1:
        return files[0].sha256
    lines = "".join(f"{file.sha256}  {file.filename}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def joint_name(files: Sequence[Spooled]) -> str:
    first = files[0].filename
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def default_run(files: Sequence[Spooled]) -> str:
    """The run's name where nobody gives one: the files' folder, else the file's name without endings."""
    path = PurePosixPath(files[0].filename)
    if len(files) > 1 and len(path.parts) > 1:
        return path.parts[0]
    return path.name.split(".")[0] or path.name


def receipt(session: AnySession, upload_id: str, problem_limit: int = 200) -> dict[str, Any]:
    """The upload as the API shows it: state, counts, batches and the first problems. Raises NotFound."""
    upload = uploads.get(session, upload_id)
    if upload is None:
        raise NotFound(f"There is no upload with the id {upload_id!r}.")
    return {
        "id": upload.id,
        "filename": upload.filename,
        "bytes": upload.bytes,
        "sha256": upload.sha256,
        "format": upload.format,
        "files": [{key: file[key] for key in SHOWN_OF_FILE} for file in upload.files],
        "request": upload.request,
        "created": upload.created,
        "duplicate_of": upload.duplicate_of,
        "counts": {"rows": upload.rows, "accepted": upload.accepted, "rejected": upload.rejected},
        "batches": batches_of(session, upload.duplicate_of or upload.id),
        "problems": [
            {key: getattr(problem, key) for key in ("file", "row", "field", "severity", "code", "message")}
            for problem in uploads.problems(session, upload.id, problem_limit)
        ],
        "problem_counts": upload.problem_counts,
        "progress": progress("ingest", upload),
        "state": upload.state,
        "error": upload.error,
    }


def batches_of(session: AnySession, upload_id: str) -> list[dict[str, Any]]:
    """The ready batches of an upload, in order of run, step and split."""
    rows = session.execute(
        select(Batch, Run.name)
        .join(Run, Run.id == Batch.run_id)
        .where(Batch.upload_id == upload_id, Batch.state == "ready")
        .order_by(Run.name, Batch.step, Batch.split)
    ).all()
    lacking = unchecked.of_batches(session, [batch.id for batch, _ in rows])
    return [
        {
            "id": batch.id,
            "run": run,
            "step": batch.step,
            "split": batch.split,
            "rollouts": batch.rollouts,
            "groups": batch.groups,
            "tokens": batch.tokens,
            "unchecked": said(lacking.get(batch.id, {})),
        }
        for batch, run in rows
    ]


def cancel(engine: Engine, jobs: Jobs, upload_id: str) -> str:
    """Stop an ingest; nothing of it becomes visible. The state after the request. Raises NotFound."""
    return request_cancel(engine, jobs, "ingest", upload_id)


def sweep(engine: Engine, settings: Settings, now: float | None = None) -> int:
    """Delete spool files of uploads that ended `spool_days` ago, and files that no upload names; how many.
    And runs in which nothing is.

    Files that are called after a transfer that goes on ("<its id>.<…>") are that transfer's.
    """
    now = time.time() if now is None else now
    with write(engine) as writing:
        runs.delete_empty(writing, now - EMPTY_RUN_SECONDS)
    with read(engine) as session:
        rows = session.execute(select(Upload.files, Upload.state, Upload.finished)).all()
        coming = {transfer.id for transfer in transfers.unfinished(session)}
    kept, known = set(), set()
    for files, state, finished in rows:
        names = {file["spool"] for file in files}
        known |= names
        if state not in FINAL or (finished or now) > now - settings.spool_days * 86400:
            kept |= names
    deleted = 0
    for path in settings.spool_dir.iterdir() if settings.spool_dir.is_dir() else ():
        if path.name in kept or path.name.partition(".")[0] in coming:
            continue
        if path.name not in known and path.stat().st_mtime > now - ORPHAN_SECONDS:
            continue
        path.unlink(missing_ok=True)
        deleted += 1
    return deleted
