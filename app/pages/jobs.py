"""`/jobs`: what is queued, running and done, and on which workers and devices."""

import time
from dataclasses import dataclass

from sqlalchemy import select

from app.deps import Reader, SettingsDep
from app.pages.page import Page
from app.templating import Crumb
from storage import jobs, workers
from storage.database import ReadSession
from storage.models import Batch, Run, Worker

LIMIT = 50
STATES = ("queued", "running", "succeeded", "failed", "cancelled")
KINDS = {"ingest": "reading a file", "estimate": "estimating", "analysis": "analysing"}
SHOWN_SECONDS = 7 * 86400.0  # how long a worker that is gone stays in the list


@dataclass(frozen=True, slots=True)
class JobLine:
    """`href`: the upload's receipt, the batch under the estimate, or the analysed batch; `of`: that batch."""

    kind: str
    doing: str
    id: str
    title: str
    of: str | None
    href: str
    state: str
    stage: str
    done: int
    total: int
    attempts: int
    error: str | None
    executor: str | None
    created: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """`state`: "alive", "silent" (not heard of for too long) or "stopped"."""

    id: str
    host: str
    pid: int
    device: str
    queues: tuple[str, ...]
    started: float
    seen: float
    state: str


@dataclass(frozen=True, slots=True)
class JobsPage:
    title: str
    crumbs: tuple[Crumb, ...]
    jobs: tuple[JobLine, ...]
    total: int
    next: str | None
    state: str | None
    states: tuple[tuple[str, int], ...]
    workers: tuple[WorkerLine, ...]
    waiting_without_worker: bool


def build(
    session: Reader, settings: SettingsDep, state: str | None = None, cursor: str | None = None
) -> JobsPage:
    chosen = (state,) if state in STATES else ()
    found = jobs.page(session, LIMIT, cursor, chosen)
    counted = jobs.counts(session)
    names = _batch_names(session, {job.batch_id for job in found.items if job.batch_id})
    totals = tuple((name, sum(n for (_, s), n in counted.items() if s == name)) for name in STATES)
    known = tuple(
        _worker(worker, settings.dead_after_seconds)
        for worker in workers.list_all(session, time.time() - SHOWN_SECONDS)
    )
    return JobsPage(
        title="Jobs",
        crumbs=(Crumb("Jobs"),),
        jobs=tuple(_line(job, names.get(job.batch_id or "")) for job in found.items),
        total=found.total,
        next=found.next,
        state=state if chosen else None,
        states=totals,
        workers=known,
        waiting_without_worker=dict(totals)["queued"] > 0 and not any(w.state == "alive" for w in known),
    )


def _batch_names(session: ReadSession, ids: set[str]) -> dict[str, str]:
    """Run and step of each batch that jobs are of."""
    rows = session.execute(select(Batch.id, Run.name, Batch.step).join(Run).where(Batch.id.in_(ids)))
    return {id: name if step is None else f"{name} · step {step}" for id, name, step in rows}


def _line(job: jobs.JobRow, of: str | None) -> JobLine:
    href = {
        "ingest": f"/uploads/{job.id}",
        "estimate": f"/batches/{job.batch_id}?estimate={job.id}",
        "analysis": f"/batches/{job.batch_id}" + ("/verify" if job.title == "reconcile" else ""),
    }[job.kind]
    seconds = (job.finished or time.time()) - job.started if job.started else None
    return JobLine(
        job.kind, KINDS[job.kind], job.id, job.title, of, href, job.state, job.stage, job.done, job.total,
        job.attempts, job.error, job.executor, job.created, seconds,
    )  # fmt: skip


def _worker(worker: Worker, silent_after: float) -> WorkerLine:
    silent = worker.seen < time.time() - silent_after or worker.reaped is not None
    state = "stopped" if worker.stopped is not None else "silent" if silent else "alive"
    return WorkerLine(
        worker.executor_id, worker.host, worker.pid, worker.device, tuple(map(str, worker.queues)),
        worker.started, worker.seen, state,
    )  # fmt: skip


PAGE = Page("/jobs", "pages/jobs.html", JobsPage, build, "jobs")
