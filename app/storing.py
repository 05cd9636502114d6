"""The body of an ingest: read the spooled files, store groups chunk by chunk, then make the batches ready."""

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any

from app import remembered
from app.ahead import ahead
from app.decoding import Decoder
from app.errors import AppError
from app.ingest import Reading, read_all
from app.ingest.options import Options
from app.ingest.record import File, Header, Item, Rollout
from app.intake import Chunk, Intake, Plan
from app.summing import Summed, announce, may_look, sum_up, unseen
from app.tasks import Restart, Task
from storage import batches, runs, uploads
from storage import jobs as job_rows
from storage.batches import SPLIT_LENGTH
from storage.database import WriteSession, checkpoint, hold, read
from storage.models import Upload
from storage.runs import NAME_LENGTH

#: Batches of an upload are reconciled with it for so long; the rest have jobs of their own.
RECONCILE_SECONDS = 20.0


class Unreadable(AppError):
    status = 422
    title = "No row could be read"


class RunDeleted(AppError):
    status = 409
    title = "The run was deleted"


def run_ingest(task: Task, upload_id: str) -> None:
    """Read, store, sum up, publish. Raises AppError where nothing could be read."""
    with read(task.engine) as session:
        upload = uploads.get(session, upload_id)
        if upload is None:
            return
        session.expunge_all()
    files = spooled(task, upload)
    options = Options.from_request(upload.request)
    with closing(read_all(files, options, task.settings, remembered.columns(task))) as reading:
        first, items = until_first_rollout(reading)
        plan = task.commit(lambda session: begin(session, task, upload, first))
        if plan["duplicate_of"] is not None:
            return
        sizes = Plan(plan["buffer_bytes"], plan["chunk_bytes"])
        intake = Intake(upload.id, upload.request, sizes, task.settings.max_batches)
        decoder = remembered.decoder_of(task, plan["tokenizer"])
        whole = chain(first, items) if decoder is None else decoder.over(chain(first, items))
        scale = upload.bytes / reading.total if reading.total else 1.0
        last = Chunk()
        # The next chunk is parsed while one is packed and committed.
        with ahead(placed_chunks(intake, whole, reading), task.check) as chunks:
            for last, position in chunks:
                task.check()
                store_chunk(task, upload.id, last, int(position * scale))
        task.check()
    if not intake.shelves:
        raise Unreadable(nothing_read(last.problems))
    task.stage("summing up")
    publish(task, upload, intake, decoder)
    checkpoint(task.engine)


def spooled(task: Task, upload: Upload) -> list[File]:
    """The files of the upload where they lie. Raises AppError where one is not there."""
    files = [File(task.settings.spool_dir / file["spool"], file["filename"]) for file in upload.files]
    if not all(file.path.is_file() for file in files):
        raise AppError(
            "The uploaded file is not in this worker's data folder. Web and ingest workers need the same "
            "VANTAGE_DATA_DIR; upload the file again."
        )
    return files


def until_first_rollout(items: Iterator[Item]) -> tuple[list[Item], Iterator[Item]]:
    """What comes before the first rollout, it included: enough to know the run. And the rest."""
    first: list[Item] = []
    for item in items:
        first.append(item)
        if isinstance(item, Rollout):
            break
    return first, items


def begin(session: WriteSession, task: Task, upload: Upload, first: list[Item]) -> dict[str, Any]:
    """The first step: fix the plan, and see whether the same bytes are in the same run already."""
    plan = {
        "buffer_bytes": task.settings.buffer_bytes,
        "chunk_bytes": task.settings.chunk_bytes,
        "duplicate_of": None,
        "tokenizer": None,
    }
    header = next((item for item in first if isinstance(item, Header)), None)
    if header is None or not first or not isinstance(first[-1], Rollout):
        return plan
    run = Intake(upload.id, upload.request, Plan(1, 1)).run_of(header)
    chosen = remembered.tokenizer(session, upload.request, run)
    return plan | {"duplicate_of": adopt(session, upload, run), "tokenizer": chosen}


def adopt(session: WriteSession, upload: Upload, run: str) -> str | None:
    """Where the same bytes are in the same run already: end as a duplicate of that upload; its id."""
    same = uploads.duplicate(session, upload.sha256, run)
    if same is None or not uploads.same_request(
        reading_options(same.request), reading_options(upload.request)
    ):
        return None
    uploads.revise(
        session, upload.id, duplicate_of=same.id, format=same.format, rows=same.rows, accepted=same.accepted,
        rejected=same.rejected,
    )  # fmt: skip
    job_rows.finish(session, Upload, upload.id, "succeeded", done=upload.bytes)
    return same.id


def reading_options(request: dict[str, Any]) -> dict[str, Any]:
    """What decides how the bytes become rollouts: everything but the run's name."""
    return {name: value for name, value in request.items() if name not in ("run", "default_run")}


def placed_chunks(intake: Intake, items: Iterator[Item], reading: Reading) -> Iterator[tuple[Chunk, int]]:
    """The chunks of the items, and how many bytes were read for each."""
    for item in items:
        check_names(intake, item)
        for chunk in intake.take(item):
            yield chunk, reading.position
    for chunk in intake.end():
        yield chunk, reading.position


def check_names(intake: Intake, item: Item) -> None:
    """Raises AppError for a run or split that cannot be a name."""
    if isinstance(item, Header):
        run = intake.run_of(item)
        if not 0 < len(run.strip()) <= NAME_LENGTH or not run.isprintable():
            raise AppError(
                f"A run's name has 1 to {NAME_LENGTH} printable characters. Give another with run=NAME."
            )
    elif isinstance(item, Rollout) and item.split is not None and not is_split(item.split):
        raise AppError(
            f"row {item.row}: a split's name has 1 to {SPLIT_LENGTH} printable characters. "
            "Give one with split=NAME."
        )


def is_split(name: str) -> bool:
    return 0 < len(name) <= SPLIT_LENGTH and name.isprintable()


def store_chunk(task: Task, upload_id: str, chunk: Chunk, position: int) -> None:
    """One step. Raises Restart where an earlier run stored something else as this step."""

    def store(session: WriteSession) -> str:
        put_chunk(session, upload_id, chunk)
        uploads.revise(
            session, upload_id, format=chunk.format, accepted=chunk.accepted, rejected=chunk.rejected,
            rows=chunk.accepted + chunk.rejected, attempts=1,
        )  # fmt: skip
        job_rows.progress(session, Upload, upload_id, done=position, stage="reading")
        return chunk.digest()

    if task.commit(store) != chunk.digest():
        raise Restart


def put_chunk(session: WriteSession, upload_id: str, chunk: Chunk) -> None:
    """The rows, arrays and problems of a chunk."""
    for shelf in chunk.begun:
        run = runs.get_or_create(session, shelf.run)
        batches.begin(
            session, run_id=run.id, upload_id=upload_id, format=shelf.format, step=shelf.step,
            split=shelf.split, id=shelf.id, header=shelf.header,
        )  # fmt: skip
    require_batches(session, {part.batch_id for part in chunk.parts})
    batches.add_parts(
        session,
        [
            batches.NewPart(p.batch_id, p.group_no, p.part, p.prompt, p.rollouts, p.arrays)
            for p in chunk.parts
        ],
    )
    uploads.add_problems(session, upload_id, chunk.problems)


def require_batches(session: WriteSession, batch_ids: set[str]) -> None:
    """Raises RunDeleted where somebody deleted the run or batch that is being read in."""
    if batch_ids and not batches.all_there(session, batch_ids):
        raise RunDeleted(
            "The run was deleted while the file was read in, so nothing of it was stored. Upload it again if "
            "it is wanted."
        )


def nothing_read(problems: list[dict[str, Any]]) -> str:
    """The sentence for an upload without a readable row: what is wrong with the file, else with a row."""
    errors = [problem for problem in problems if problem["severity"] == "error"]
    of_file = [problem for problem in errors if problem["row"] is None]
    told = (of_file or errors)[:1]
    return str(told[0]["message"]) if told else "The upload has no row: it is empty."


def publish(task: Task, upload: Upload, intake: Intake, decoder: Decoder | None) -> None:
    """Make every batch of the upload visible in one step, with its statistics and first estimates."""
    shelves = list(intake.shelves.values())
    look = may_look(task, upload)
    summed: list[Summed] = []
    until = time.monotonic() + RECONCILE_SECONDS
    for shelf in shelves:
        task.check()
        summed.append(sum_up(task, shelf, time.monotonic() < until) if look else unseen(shelf))

    def end(session: WriteSession) -> None:
        hold(session, f"upload {upload.sha256}")
        run = shelves[0].run
        if adopt(session, upload, run):  # the same bytes went through at the same time
            batches.discard_partial(session, upload.id)
            return
        require_batches(session, {shelf.id for shelf in shelves})
        for shelf, found in zip(shelves, summed, strict=True):
            batches.finish(session, shelf.id, fields=shelf.provenance(), **found.columns)
        for shelf, found in zip(shelves, summed, strict=True):
            announce(session, task, shelf, found)
        remembered.keep(session, upload.request, shelves, decoder)
        job_rows.finish(session, Upload, upload.id, "succeeded", done=upload.bytes)

    task.commit(end)
