"""An upload read once more, as the caller says now: the same bytes, other options."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from app import uploads
from app.errors import Conflict, NotFound
from app.estimation import forget_step
from app.ingest.options import Options
from app.jobs import Jobs
from app.settings import Settings
from app.uploads import Spooled
from storage import batches
from storage import uploads as stored
from storage.database import read, write
from storage.ids import new_id
from storage.models import Upload


def again(
    engine: Engine,
    jobs: Jobs,
    settings: Settings,
    upload_id: str,
    changes: Mapping[str, Any],
    replace: bool = False,
) -> tuple[str, bool]:
    """A new upload of the same files under changed options: (id, created). None takes an option away.

    `replace` deletes the batches that the first reading made. Raises NotFound, Conflict.
    """
    with read(engine) as session:
        upload = stored.get(session, upload_id)
        if upload is None:
            raise NotFound(f"There is no upload with the id {upload_id!r}.")
        session.expunge_all()
    said = {**upload.request, **changes}
    options = Options.from_request({name: value for name, value in said.items() if value is not None})
    files = copies(upload, settings)
    try:
        made = uploads.accept(engine, jobs, settings, files, options)
    except BaseException:
        uploads.discard(files, settings)
        raise
    if replace and made[0] != upload.id:
        delete_batches(engine, jobs, upload.id)
    return made


def copies(upload: Upload, settings: Settings) -> list[Spooled]:
    """The upload's files under names of their own: linked, where the file system can. Raises Conflict."""
    made: list[Spooled] = []
    for file in upload.files:
        here, there = settings.spool_dir / file["spool"], settings.spool_dir / new_id()
        if not here.is_file():
            uploads.discard(made, settings)
            raise Conflict(
                "The uploaded file is no longer kept (VANTAGE_SPOOL_DAYS), so it cannot be read again. "
                "Upload it again."
            )
        try:
            os.link(here, there)
        except OSError:
            shutil.copyfile(here, there)
        made.append(Spooled(**{**file, "spool": there.name}))
    return made


def delete_batches(engine: Engine, jobs: Jobs, upload_id: str) -> None:
    with write(engine) as session:
        for batch in stored.batches_of(session, upload_id):
            if batch.upload_id != upload_id:
                continue
            run_id, split, step = batch.run_id, batch.split, batch.step
            batches.delete(session, batch.id)
            forget_step(session, jobs, run_id, split, step)
