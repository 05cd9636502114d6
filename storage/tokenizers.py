"""Tokenizers by name, and which one a run was last decoded with."""

import time
from typing import Any

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, update
from sqlalchemy.orm import defer

from storage.database import AnySession, WriteSession, insert_new
from storage.models import Run, Tokenizer
from storage.pages import Page, Sort, paginate

NAME_LENGTH = 64


def put(session: WriteSession, name: str, **columns: Any) -> bool:
    """Store the tokenizer under this name; True where the name is new, False where it was replaced."""
    created = time.time()
    if insert_new(session, Tokenizer, {"name": name, "created": created, **columns}, ["name"]):
        return True
    session.execute(update(Tokenizer).where(Tokenizer.name == name).values(created=created, **columns))
    return False


def get(session: AnySession, name: str) -> Tokenizer | None:
    """The tokenizer without `data`, which may be megabytes."""
    return session.get(Tokenizer, name, options=[defer(Tokenizer.data)])


def data(session: AnySession, name: str, sha256: str) -> bytes | None:
    """What decoding needs; None where there is no tokenizer of that name, or another one by now."""
    where = (Tokenizer.name == name, Tokenizer.sha256 == sha256)
    return session.execute(select(Tokenizer.data).where(*where)).scalar_one_or_none()


def page(session: AnySession, limit: int = 50, cursor: str | None = None) -> Page[Tokenizer]:
    """Tokenizers, newest first."""
    statement = select(Tokenizer).options(defer(Tokenizer.data))
    sort = Sort("-created", Tokenizer.created, Tokenizer.name, True)
    rows, following = paginate(session, statement, sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(Tokenizer)).scalar_one()
    return Page([row.Tokenizer for row in rows], following, total)


def runs_of(session: AnySession, name: str, limit: int = 20) -> list[str]:
    """Names of the runs that remember it, the first few."""
    statement = select(Run.name).where(Run.tokenizer == name).order_by(Run.name).limit(limit)
    return list(session.execute(statement).scalars())


def of_run(session: AnySession, run: str) -> str | None:
    """The tokenizer that the run of this name remembers."""
    return session.execute(select(Run.tokenizer).where(Run.name == run)).scalar_one_or_none()


def remember(session: WriteSession, run: str, name: str) -> None:
    """From now on the run of this name is decoded with it, unless an upload says otherwise."""
    session.execute(update(Run).where(Run.name == run).values(tokenizer=name))


def delete(session: WriteSession, name: str) -> bool:
    """Forget it, also in the runs; token texts that it made stay. False where there was none."""
    session.execute(update(Run).where(Run.tokenizer == name).values(tokenizer=None))
    gone = session.execute(delete_from(Tokenizer).where(Tokenizer.name == name).returning(Tokenizer.name))
    return gone.first() is not None
