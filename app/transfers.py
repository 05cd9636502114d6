"""Uploads that come in pieces: begun with names and sizes, sent from where they stand, then like any other.

Whoever begins one brings a key of their own and shows it with every further request; only its hash is kept.
What is sent is on disk before it is acknowledged, and stays when the connection, the page or the server goes.
"""

import hashlib
import hmac
import shutil
import time
from asyncio import timeout, to_thread
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Engine

from app import pieces
from app.errors import Busy, Conflict, NotFound, TimedOut, TooLarge, Unprocessable
from app.ingest.options import Options
from app.jobs import Jobs
from app.pieces import Pieces
from app.settings import Settings
from app.uploads import (
    Spooled,
    check_encoding,
    clean_name,
    discard,
    fsync_folder,
    record,
    tokenizer_of,
)
from storage import transfers
from storage.database import AnySession, read, write
from storage.models import Transfer

MAX_FILES = 10_000
#: Digests are of so many bytes each, and one answer has at most so many of them.
DIGEST_BYTES = 8 << 20
MOST_DIGESTS = 32


@dataclass(frozen=True, slots=True)
class Announced:
    """A file that will come: `bytes` as they are sent, `encoding` what they are compressed with."""

    filename: str
    bytes: int
    encoding: str | None = None


def begin(
    engine: Engine, settings: Settings, files: Sequence[Announced], options: Options, key: str
) -> Transfer:
    """A transfer of these files. Raises TooLarge, Busy (no space), BadRequest (encoding), Unprocessable."""
    total = sum(file.bytes for file in files)
    if total > settings.max_upload_bytes:
        raise TooLarge(
            f"The upload has {total} bytes and may have {settings.max_upload_bytes} "
            "(VANTAGE_MAX_UPLOAD_BYTES). Send it in parts, or compressed with gzip or zstd."
        )
    settings.spool_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.spool_dir).free
    if total > free:
        raise Busy(f"The upload has {total} bytes and the data folder has room for {free}. Make room for it.")
    listed = [
        {
            "filename": clean_name(file.filename),
            "bytes": file.bytes,
            "encoding": check_encoding(file.encoding),
        }
        for file in files
    ]
    with write(engine) as session:
        tokenizer_of(session, options)
        made = transfers.create(session, key_hash=hash_of(key), files=listed, request=asdict(options))
        pieces.begin(pieces_of(made, settings))
    return made


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def pieces_of(transfer: Transfer, settings: Settings) -> Pieces:
    sizes = tuple(int(file["bytes"]) for file in transfer.files)
    return Pieces(settings.spool_dir, transfer.id, sizes)


def find(session: AnySession, transfer_id: str, key: str) -> Transfer:
    """Raises NotFound, alike for an unknown id and for another's key."""
    found = transfers.get(session, transfer_id)
    if found is None or not hmac.compare_digest(found.key_hash, hash_of(key)):
        raise NotFound(
            "There is no transfer with this id and Upload-Key. It may have been given up, or deleted because "
            "nothing came for too long (VANTAGE_TRANSFER_HOURS). Begin another one."
        )
    return found


def unfinished(engine: Engine, transfer_id: str, key: str) -> Transfer:
    """The transfer, to which more may be sent. Raises NotFound, Conflict."""
    with read(engine) as session:
        found = find(session, transfer_id, key)
        if found.upload_id is not None:
            raise Conflict(
                f"The transfer is complete. GET /api/v1/uploads/{found.upload_id} says what became of it."
            )
        session.expunge(found)
        return found


def describe(transfer: Transfer, settings: Settings) -> dict[str, Any]:
    """The transfer as the API shows it."""
    here = pieces_of(transfer, settings)
    whole = transfer.upload_id is not None
    last = transfer.created if whole else pieces.last_written(here, transfer.created)
    return {
        "id": transfer.id,
        "files": transfer.files,
        "bytes": transfer.bytes,
        "offset": transfer.bytes if whole else pieces.offset_of(here),
        "created": transfer.created,
        "expires": None if whole else last + settings.transfer_hours * 3600,
        "upload": transfer.upload_id,
    }


async def append(
    transfer: Transfer,
    settings: Settings,
    offset: int,
    chunks: AsyncIterable[bytes],
    announced: int | None,
) -> int:
    """Take bytes at `offset`, which must be where it stands; what came stays, also when this breaks off.

    The caller holds `pieces.alone`. The offset after it. Raises Conflict, TooLarge, TimedOut, Busy.
    """
    here = pieces_of(transfer, settings)
    found = pieces.offset_of(here)
    if offset != found:
        raise Conflict(
            f"The transfer has {found} bytes, so the next piece begins at Upload-Offset {found}.",
            offset=found,
        )
    if announced is not None and offset + announced > here.total:
        raise pieces.too_many(here)
    writer = pieces.Writer(here, offset)
    try:
        async for chunk in unstalled(chunks, settings.transfer_stall_seconds):
            writer.write(chunk)
    except BaseException:
        writer.leave()
        raise
    await to_thread(writer.close)
    return writer.offset


async def unstalled(chunks: AsyncIterable[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The chunks as they come. Raises TimedOut where none comes: a dead connection must not keep others
    out."""
    coming = aiter(chunks)
    while True:
        try:
            async with timeout(seconds):
                chunk = await anext(coming)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TimedOut(
                f"Nothing came for {seconds:g} seconds (VANTAGE_TRANSFER_STALL_SECONDS). What came before is "
                "kept: ask for the offset and send the rest."
            ) from None
        yield chunk


def digests(transfer: Transfer, settings: Settings, start: int) -> dict[str, Any]:
    """SHA-256 of every `DIGEST_BYTES` from `start` on, at most `MOST_DIGESTS`, of what is here."""
    here = pieces_of(transfer, settings)
    offset = pieces.offset_of(here)
    end = min(offset, start + MOST_DIGESTS * DIGEST_BYTES)
    return {
        "start": start,
        "step": DIGEST_BYTES,
        "sha256": pieces.digests(here, start, end, DIGEST_BYTES),
        "offset": offset,
        "next": end if end < offset else None,
    }


def complete(
    engine: Engine, jobs: Jobs, settings: Settings, transfer_id: str, key: str, sha256: str | None = None
) -> tuple[str, bool]:
    """Make it an upload: (id, created). Asked again, the same id.

    `sha256`: of all its bytes in the order in which they came. Raises NotFound, Conflict, Unprocessable.
    """
    with read(engine) as session:
        found = find(session, transfer_id, key)
        if found.upload_id is not None:
            return found.upload_id, False
        here = pieces_of(found, settings)
    with pieces.alone(here):
        files = whole(here, found, settings, sha256)
        with write(engine) as session:
            found = find(session, transfer_id, key)
            if found.upload_id is not None:  # while this one waited for its turn
                return found.upload_id, False
            options = Options.from_request(found.request)
            upload_id, created = record(session, jobs, files, options)
            found.upload_id = upload_id
        if not created:
            discard(files, settings)
    return upload_id, created


def whole(here: Pieces, transfer: Transfer, settings: Settings, sha256: str | None) -> list[Spooled]:
    """Its files, checked and on disk. Raises Conflict where bytes are missing, Unprocessable."""
    offset = pieces.offset_of(here)
    if offset < here.total:
        raise Conflict(
            f"The transfer has {offset} of {here.total} bytes. Send the rest first.", offset=offset
        )
    each, joint = pieces.hashed(here)
    if sha256 is not None and sha256.lower() != joint:
        raise Unprocessable(
            f"What came has the SHA-256 {joint}, not {sha256}: the files changed while they were sent, or "
            "something on the way changed them. Give this transfer up (DELETE) and begin another."
        )
    fsync_folder(settings.spool_dir)
    return [
        Spooled(file["filename"], file["bytes"], digest, here.name(number), file["encoding"])
        for number, (file, digest) in enumerate(zip(transfer.files, each, strict=True))
    ]


def abandon(engine: Engine, settings: Settings, transfer_id: str, key: str) -> None:
    """Give it up: nothing of it stays.

    Raises NotFound, Conflict where it is an upload already or another request sends to it.
    """
    drop(engine, unfinished(engine, transfer_id, key), settings)


def drop(engine: Engine, transfer: Transfer, settings: Settings) -> None:
    """Delete its record and its bytes, unless it became an upload. Raises Conflict while a request sends."""
    here = pieces_of(transfer, settings)
    pieces.begin(here)
    with pieces.alone(here):
        with write(engine) as session:
            row = transfers.get(session, transfer.id)
            going_on = row is not None and row.upload_id is None
            if going_on:
                transfers.delete(session, transfer.id)
        if going_on:
            pieces.remove(here)


def expire(engine: Engine, settings: Settings, now: float | None = None) -> int:
    """Give up transfers to which nothing came for `transfer_hours`; how many."""
    silent = (time.time() if now is None else now) - settings.transfer_hours * 3600
    with read(engine) as session:
        going_on = transfers.unfinished(session)
        session.expunge_all()
    over = 0
    for transfer in going_on:
        if pieces.last_written(pieces_of(transfer, settings), transfer.created) < silent:
            with suppress(Conflict):  # somebody sends again after all, or completes it
                drop(engine, transfer, settings)
                over += 1
    return over
