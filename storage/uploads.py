"""Uploads: what was handed over, what was wrong with its rows, and whether it was here before."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, update

from storage.database import AnySession, WriteSession
from storage.ids import new_id
from storage.models import Batch, Problem, Run, Upload
from storage.pages import Page, Sort, paginate

STORED_PROBLEMS = 1000  # of one upload; the rest is only counted
OVER = ("failed", "cancelled")


def create(
    session: WriteSession,
    *,
    filename: str,
    bytes: int,
    sha256: str,
    files: list[Any],
    request: dict[str, Any],
    id: str | None = None,
    format: str | None = None,
    **columns: Any,
) -> Upload:
    """A new upload in state "queued". `total` counts bytes unless given otherwise in `columns`."""
    columns = {"state": "queued", "created": time.time(), "total": bytes, **columns}
    upload = Upload(
        id=id or new_id(), filename=filename, bytes=bytes, sha256=sha256, files=files, request=request,
        format=format, **columns,
    )  # fmt: skip
    session.add(upload)
    session.flush()
    return upload


def get(session: AnySession, upload_id: str) -> Upload | None:
    return session.get(Upload, upload_id)


def revise(session: WriteSession, upload_id: str, **columns: Any) -> None:
    """Set columns that are not the job's own (format, rows, accepted, rejected, files, duplicate_of …)."""
    session.execute(update(Upload).where(Upload.id == upload_id).values(**columns))


def page(session: AnySession, limit: int = 50, cursor: str | None = None) -> Page[Upload]:
    """Uploads, newest first."""
    rows, following = paginate(
        session, select(Upload), Sort("-created", Upload.created, Upload.id, True), limit, cursor
    )
    total = session.execute(select(func.count()).select_from(Upload)).scalar_one()
    return Page([row.Upload for row in rows], following, total)


def problems(session: AnySession, upload_id: str, limit: int = 100, after: int = -1) -> list[Problem]:
    """The first `limit` problems with `seq` beyond `after`, in the order in which they were met."""
    statement = select(Problem).where(Problem.upload_id == upload_id, Problem.seq > after)
    return list(session.execute(statement.order_by(Problem.seq).limit(limit)).scalars())


def add_problems(session: WriteSession, upload_id: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Append problems (`severity`, `code`, `message`, and `file`, `row`, `field` where they have them).

    The first thousand of an upload are stored; all are counted by code in `problem_counts`.
    """
    if not found:
        return
    counts = session.execute(
        select(Upload.problem_counts).where(Upload.id == upload_id).with_for_update()
    ).scalar_one()
    total = Counter(counts)
    stored = min(total.total(), STORED_PROBLEMS)
    total.update(str(problem["code"]) for problem in found)
    rows = [
        {
            "upload_id": upload_id, "seq": seq, "file": problem.get("file"), "row": problem.get("row"),
            "field": problem.get("field"), "severity": problem["severity"], "code": problem["code"],
            "message": problem["message"],
        }
        for seq, problem in enumerate(found[: STORED_PROBLEMS - stored], start=stored)
    ]  # fmt: skip
    if rows:
        session.execute(insert(Problem), rows)
    revise(session, upload_id, problem_counts=dict(total))


def clear_problems(session: WriteSession, upload_id: str) -> None:
    """Forget the problems, before an ingest begins anew."""
    session.execute(delete_from(Problem).where(Problem.upload_id == upload_id))
    revise(session, upload_id, problem_counts={}, rows=0, accepted=0, rejected=0)


def find_same(session: AnySession, sha256: str, request: dict[str, Any]) -> Upload | None:
    """The upload of the same bytes and request that is at work, or done with every batch in place."""
    statement = (
        select(Upload)
        .where(
            Upload.sha256 == sha256,
            Upload.state.not_in(OVER),
            Upload.cancel_requested.is_(False),
            Upload.duplicate_of.is_(None),
        )
        .order_by(Upload.created.desc())
    )
    for upload in session.execute(statement).scalars():
        if same_request(upload.request, request) and (
            upload.state != "succeeded" or _complete(session, upload)
        ):
            return upload
    return None


def same_request(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two requests say the same; what is not said, or nothing, does not count."""
    said = [
        {name: value for name, value in one.items() if value not in (None, {})} for one in (first, second)
    ]
    return said[0] == said[1]


def duplicate(session: AnySession, sha256: str, run: str) -> Upload | None:
    """The newest finished upload of the same bytes whose batches all are in the run of that name."""
    statement = (
        select(Upload)
        .where(Upload.sha256 == sha256, Upload.state == "succeeded", Upload.duplicate_of.is_(None))
        .order_by(Upload.created.desc())
    )
    for upload in session.execute(statement).scalars():
        names = session.execute(
            select(Run.name)
            .join(Batch, Batch.run_id == Run.id)
            .where(Batch.upload_id == upload.id)
            .distinct()
        ).scalars()
        if set(names) == {run} and _complete(session, upload):
            return upload
    return None


def delete_spent(session: WriteSession, upload_ids: Iterable[str]) -> list[str]:
    """Delete those of the uploads that succeeded and of whose batches none is left, with their problems and
    with the uploads that were answered as their duplicates; the names of their files in the spool folder."""
    names: list[str] = []
    for upload_id in set(upload_ids):
        upload = session.get(Upload, upload_id)
        left = select(func.count()).select_from(Batch).where(Batch.upload_id == upload_id)
        if upload is None or upload.state != "succeeded" or session.scalar(left):
            continue
        same = session.execute(select(Upload).where(Upload.duplicate_of == upload_id)).scalars().all()
        for gone in (*same, upload):
            names += [file["spool"] for file in gone.files]
            session.execute(delete_from(Upload).where(Upload.id == gone.id))
    still_named = {file["spool"] for files in session.scalars(select(Upload.files)) for file in files}
    return [name for name in names if name not in still_named]


def of_run(session: AnySession, run_id: str) -> list[str]:
    """Ids of the uploads that have batches in the run."""
    return list(session.scalars(select(Batch.upload_id).where(Batch.run_id == run_id).distinct()))


def batches_of(session: AnySession, upload_id: str) -> list[Batch]:
    """The ready batches of an upload, by step, split and age; of the original where it is a duplicate."""
    upload = session.get(Upload, upload_id)
    source = upload_id if upload is None else upload.duplicate_of or upload_id
    statement = select(Batch).where(Batch.upload_id == source, Batch.state == "ready")
    order = (Batch.step.nulls_last(), Batch.split, Batch.created, Batch.id)
    return list(session.execute(statement.order_by(*order)).scalars())


def _complete(session: AnySession, upload: Upload) -> bool:
    """Whether every batch that the upload made is still there."""
    ready = session.execute(
        select(func.count()).select_from(Batch).where(Batch.upload_id == upload.id, Batch.state == "ready")
    ).scalar_one()
    return 0 < ready == upload.batches_made
