"""Uploads in pieces where connections break off, fall silent, or meet each other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app import pieces, transfers
from app.errors import Conflict, NotFound, TimedOut
from app.ingest.options import Options
from app.transfers import Announced
from storage.database import read
from storage.models import Transfer
from tests.working import Place

KEY = "a secret of sixteen characters and more"
SIZES = (3_000_000, 0, 5)


def begun(place: Place) -> Transfer:
    files = [Announced(f"{n}.jsonl", size) for n, size in enumerate(SIZES)]
    return transfers.begin(place.engine, place.settings, files, Options(), KEY)


def here(place: Place, transfer: Transfer) -> int:
    return pieces.offset_of(transfers.pieces_of(transfer, place.settings))


def append(place: Place, transfer: Transfer, offset: int, chunks: AsyncIterator[bytes]) -> int:
    """As the endpoint does it."""
    with pieces.alone(transfers.pieces_of(transfer, place.settings)):
        return asyncio.run(transfers.append(transfer, place.settings, offset, chunks, None))


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def broken_off(data: bytes) -> AsyncIterator[bytes]:
    yield data
    raise ConnectionResetError


async def silent(data: bytes, forever: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    yield data
    await forever()


def test_what_came_before_the_connection_broke_stays(place: Place) -> None:
    transfer = begun(place)
    with pytest.raises(ConnectionResetError):
        append(place, transfer, 0, broken_off(b"a" * 1234))
    assert here(place, transfer) == 1234
    assert append(place, transfer, 1234, sent(b"b" * (3_000_000 - 1234 + 2))) == 3_000_002
    assert append(place, transfer, 3_000_002, sent(b"c", b"", b"cc")) == 3_000_005
    found = transfers.pieces_of(transfer, place.settings)
    joined = b"".join(pieces.stream(found, 0, found.total))
    assert joined == b"a" * 1234 + b"b" * (3_000_000 - 1234 + 2) + b"ccc"
    assert [path.stat().st_size for path in (found.path(0), found.path(2))] == [3_000_000, 5]


def test_a_connection_that_falls_silent_ends_and_what_came_stays(place: Place) -> None:
    transfer = begun(place)
    hasty = place.settings.model_copy(update={"transfer_stall_seconds": 0.05})

    async def wait() -> None:
        never = asyncio.Event()
        await transfers.append(transfer, hasty, 0, silent(b"x" * 77, never.wait), None)

    with pytest.raises(TimedOut, match="VANTAGE_TRANSFER_STALL_SECONDS"):
        asyncio.run(wait())
    assert here(place, transfer) == 77


def test_one_request_writes_and_the_others_are_told_to_wait(place: Place) -> None:
    transfer = begun(place)
    found = transfers.pieces_of(transfer, place.settings)
    with pieces.alone(found):
        with pytest.raises(Conflict, match="Another request"), pieces.alone(found):
            pass
        with pytest.raises(Conflict, match="Another request"):
            transfers.abandon(place.engine, place.settings, transfer.id, KEY)
        assert transfers.expire(place.engine, place.settings, 2e9) == 0, "somebody is sending"
    with pieces.alone(found):
        pass
    assert transfers.expire(place.engine, place.settings, 2e9) == 1


def test_what_the_files_do_not_hold_is_not_here(place: Place) -> None:
    """A later file without the whole one before it, as after a crash of the machine."""
    transfer = begun(place)
    append(place, transfer, 0, sent(b"x" * 3_000_003))
    found = transfers.pieces_of(transfer, place.settings)
    with open(found.path(0), "r+b") as file:
        file.truncate(1_000_000)
    assert here(place, transfer) == 1_000_000
    append(place, transfer, 1_000_000, sent(b"y" * 2_000_005))
    end = b"".join(pieces.stream(found, 999_999, found.total))
    assert end == b"x" + b"y" * 2_000_005


def test_a_transfer_whose_place_is_gone_is_over(place: Place) -> None:
    transfer = begun(place)
    found = transfers.pieces_of(transfer, place.settings)
    pieces.remove(found)
    with pytest.raises(NotFound, match="Begin another"), pieces.alone(found):
        pass
    transfers.abandon(place.engine, place.settings, transfer.id, KEY)
    with read(place.engine) as session, pytest.raises(NotFound):
        transfers.find(session, transfer.id, KEY)
    assert list(place.settings.spool_dir.iterdir()) == []
