"""A large step sent in pieces: after a lost connection, or a death on either side, only the rest is sent.

The id of its transfer lies beside the step; the transfer's key is the step's own name, which nobody guesses.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import IO

from vantage_client.http import Answer, Refused, Server
from vantage_client.spool import Waiting

TRANSFERS = "/api/v1/transfers"
#: Steps of more bytes than this are sent in pieces of so many bytes.
LARGE, PIECE = 64 << 20, 8 << 20


def send(server: Server, waiting: Waiting) -> Answer:
    """The answer of the upload that it becomes. Raises Away, Refused."""
    body, size = waiting.open()
    with body:
        id, here = _standing(server, waiting, size)
        while here < size:
            body.seek(waiting.start + here)
            piece = body.read(PIECE)
            headers = {"Upload-Offset": str(here), "Content-Type": "application/octet-stream"}
            server.ask(f"{TRANSFERS}/{id}", None, piece, _key(waiting) | headers, "PATCH")
            here += len(piece)
        checked = {"sha256": _digest(body, waiting.start)}
        try:
            return _post(server, waiting, f"{TRANSFERS}/{id}/complete", checked)
        except Refused:
            forget(waiting.path)
            raise


def forget(path: Path) -> None:
    """That a transfer of this step was begun."""
    note_of(path).unlink(missing_ok=True)


def note_of(path: Path) -> Path:
    return path.with_suffix(".transfer")


def _standing(server: Server, waiting: Waiting, size: int) -> tuple[str, int]:
    """The id of the step's transfer, begun now if there is none, and how many bytes of it are there."""
    note = note_of(waiting.path)
    if note.exists():
        id = note.read_text()
        try:
            told = server.ask(f"{TRANSFERS}/{id}", headers=_key(waiting)).json()
            return id, int(told["offset"])
        except Refused as error:
            if error.status not in (404, 422):  # given up there for too long a silence, or no id at all
                raise
    query = {name: value for name, value in waiting.query.items() if name != "filename"}
    file = {"filename": waiting.query["filename"], "bytes": size, "encoding": waiting.encoding}
    begun = _post(server, waiting, TRANSFERS, {"files": [file]}, query)
    id = str(begun.json()["id"])
    written = note.with_suffix(".partial-note")
    written.write_text(id)
    os.replace(written, note)
    return id, 0


def _post(
    server: Server, waiting: Waiting, path: str, content: object, query: dict[str, object] | None = None
) -> Answer:
    headers = _key(waiting) | {"Content-Type": "application/json"}
    return server.ask(path, query, json.dumps(content).encode(), headers, "POST")


def _key(waiting: Waiting) -> dict[str, str]:
    return {"Upload-Key": waiting.key}


def _digest(body: IO[bytes], start: int) -> str:
    state = hashlib.sha256()
    body.seek(start)
    while block := body.read(1 << 20):
        state.update(block)
    return state.hexdigest()
