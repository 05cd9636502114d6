"""Large files handed to a server in pieces: what is there already is not sent again, whatever broke off."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from app.remote import Changed, Refused, Remote, read

#: Uploads of more bytes than this are sent in pieces of so many bytes.
LARGE, PIECE = 64 << 20, 16 << 20
BLOCK = 1 << 20
OFFSET = "Upload-Offset"
GONE = (404, 422)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A transfer that was begun at a server, the secret it was begun with, and a word for what it is of."""

    id: str
    key: str
    of: str


class Notes(Protocol):
    """Where the ticket of what is being sent is kept, so that a process that follows goes on with it."""

    def read(self) -> Ticket | None: ...

    def keep(self, ticket: Ticket | None) -> None: ...


def upload(
    remote: Remote, files: Sequence[tuple[Path, str]], query: Mapping[str, Any], of: str, notes: Notes
) -> dict[str, Any]:
    """Hand over files with the names that they are shown under: the receipt so far. `of`: a word for their
    contents and the query; with another one a new transfer is begun.

    Raises Away (what came stays there), Refused, Changed, OSError.
    """
    sizes = [path.stat().st_size for path, _ in files]
    if sum(sizes) <= LARGE:
        return remote.upload(files, **query)
    ticket, here = standing(remote, files, sizes, query, of, notes)
    path, headers = f"/transfers/{quote(ticket.id)}", {"Upload-Key": ticket.key}
    while here < sum(sizes):
        piece = min(PIECE, sum(sizes) - here)
        sent = {**headers, OFFSET: str(here), "Content-Length": str(piece)}
        sent["Content-Type"] = "application/octet-stream"
        with remote.answer("PATCH", path, {}, sent, part([path for path, _ in files], sizes, here, piece)):
            here += piece
    checked = {"sha256": digest([path for path, _ in files])}
    try:
        receipt: dict[str, Any] = remote.post(f"{path}/complete", checked, headers=headers)
    except Refused as error:
        give_up(remote, ticket)
        notes.keep(None)
        raise Changed("The files changed while they were sent.") if error.answered == 422 else error from None
    notes.keep(None)
    return receipt


def standing(
    remote: Remote,
    files: Sequence[tuple[Path, str]],
    sizes: Sequence[int],
    query: Mapping[str, Any],
    of: str,
    notes: Notes,
) -> tuple[Ticket, int]:
    """The transfer of these files, begun now if there is none, and how many bytes of it are there."""
    before = notes.read()
    if before is not None and before.of != of:
        give_up(remote, before)
    elif before is not None:
        try:
            with remote.answer(
                "GET", f"/transfers/{quote(before.id)}", {}, {"Upload-Key": before.key}
            ) as told:
                return before, int(json.loads(told.read())["offset"])
        except Refused as error:
            if error.answered not in GONE:
                raise
    key = secrets.token_hex(32)
    coming = [{"filename": name, "bytes": size} for (_, name), size in zip(files, sizes, strict=True)]
    begun = remote.post("/transfers", {"files": coming}, headers={"Upload-Key": key}, **query)
    ticket = Ticket(str(begun["id"]), key, of)
    notes.keep(ticket)
    return ticket, 0


def give_up(remote: Remote, ticket: Ticket) -> None:
    """What nobody goes on with should not wait for its time; where that is refused, it does."""
    try:
        with remote.answer("DELETE", f"/transfers/{quote(ticket.id)}", {}, {"Upload-Key": ticket.key}):
            pass
    except Refused:
        pass


def part(paths: Sequence[Path], sizes: Sequence[int], start: int, size: int) -> Iterator[bytes]:
    """So many bytes of the files, one after the other, from `start` on. Raises Changed."""
    ends = list(accumulate(sizes))
    for path, own, end in zip(paths, sizes, ends, strict=True):
        begin = max(start - (end - own), 0)
        left = min(start + size, end) - max(start, end - own)
        if left > 0:
            yield from read(path, left, begin)


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 of the bytes of all files, one after the other."""
    state = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                state.update(block)
    return state.hexdigest()
