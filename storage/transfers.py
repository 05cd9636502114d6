"""Transfers: uploads that come in pieces, from their first byte to the upload that they become."""

import time
from typing import Any

from sqlalchemy import delete as delete_from
from sqlalchemy import select

from storage.database import AnySession, WriteSession
from storage.ids import new_id
from storage.models import Transfer


def create(session: WriteSession, *, key_hash: str, files: list[Any], request: dict[str, Any]) -> Transfer:
    """A transfer of which nothing is here yet. `files`: {"filename", "bytes", "encoding"} of each."""
    transfer = Transfer(
        id=new_id(),
        key_hash=key_hash,
        bytes=sum(file["bytes"] for file in files),
        created=time.time(),
        upload_id=None,
        request=request,
        files=files,
    )
    session.add(transfer)
    session.flush()
    return transfer


def get(session: AnySession, transfer_id: str) -> Transfer | None:
    return session.get(Transfer, transfer_id)


def unfinished(session: AnySession) -> list[Transfer]:
    """Those that no upload has come of yet."""
    return list(session.scalars(select(Transfer).where(Transfer.upload_id.is_(None))))


def delete(session: WriteSession, transfer_id: str) -> None:
    session.execute(delete_from(Transfer).where(Transfer.id == transfer_id))


def forget(session: WriteSession, before: float) -> None:
    """Drop records of transfers that became uploads and were begun before that moment (Unix seconds)."""
    session.execute(delete_from(Transfer).where(Transfer.upload_id.is_not(None), Transfer.created < before))
