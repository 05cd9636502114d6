"""Answers already given: a POST repeated with the same `Idempotency-Key` gets the same one."""

import time
from typing import Any

from sqlalchemy import delete as delete_from

from storage.database import AnySession, WriteSession, insert_new
from storage.models import IdempotencyKey


def lookup(session: AnySession, key: str) -> IdempotencyKey | None:
    """The answer to this key. The caller compares `path` and `digest` with the request's."""
    return session.get(IdempotencyKey, key)


def remember(
    session: WriteSession, key: str, path: str, digest: str, status: int, headers: dict[str, Any], body: bytes
) -> bool:
    """Keep the answer. False where the key has one already."""
    row = {
        "key": key, "path": path, "digest": digest, "status": status, "headers": headers, "body": body,
        "created": time.time(),
    }  # fmt: skip
    return insert_new(session, IdempotencyKey, row, ["key"])


def forget(session: WriteSession, before: float) -> None:
    """Drop answers older than the moment `before` (Unix seconds)."""
    session.execute(delete_from(IdempotencyKey).where(IdempotencyKey.created < before))
