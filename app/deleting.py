"""Deleting a run or a batch for good: its rows, its receipt, its file, and the space they took."""

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Engine, event

from app.settings import Settings
from storage import uploads
from storage.database import WriteSession, give_back_space


def delete_spent_uploads(session: WriteSession, settings: Settings, upload_ids: Iterable[str]) -> None:
    """Delete the uploads of which no batch is left; their files go when the transaction is committed."""
    names = uploads.delete_spent(session, upload_ids)
    paths = [settings.spool_dir / Path(name).name for name in names]

    def unlink(_session: object) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    event.listen(session, "after_commit", unlink, once=True)


def return_space(engine: Engine) -> None:
    """Give the disk back what deleted rows took, in short transactions; called after the answer."""
    while give_back_space(engine):
        pass
