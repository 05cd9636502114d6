"""`/`: what is here. A place to drop files, the runs, the latest batches, what is being read right now."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from app.deps import Reader, SettingsDep
from app.ingest import FORMATS
from app.jobs import progress
from app.pages.page import Page
from app.templating import Crumb
from storage import batches, runs, tokenizers, uploads
from storage.database import ReadSession
from storage.models import Batch, Run, Upload

RUNS, BATCHES, UPLOADS = 20, 12, 5
SPARK_STEPS = 40


@dataclass(frozen=True, slots=True)
class RunCard:
    """`rewards`: the mean reward of the last steps, oldest first; None where a step has no scored rollout."""

    id: str
    name: str
    batches: int
    rollouts: int
    tokens: int
    first_step: int | None
    last_step: int | None
    newest: float
    rewards: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class BatchLine:
    """`findings`: severity -> how many."""

    id: str
    run: str
    step: int | None
    split: str | None
    rollouts: int
    groups: int
    created: float
    reward: float | None
    findings: dict[str, int]


@dataclass(frozen=True, slots=True)
class UploadLine:
    id: str
    filename: str
    state: str
    stage: str
    done: int
    total: int
    created: float
    format: str | None
    rows: int
    problems: int


@dataclass(frozen=True, slots=True)
class HomePage:
    """`version`: changes whenever a batch came in or went."""

    title: str
    crumbs: tuple[Crumb, ...]
    version: str
    runs: tuple[RunCard, ...]
    runs_total: int
    runs_next: str | None
    latest: tuple[BatchLine, ...]
    uploads: tuple[UploadLine, ...]
    formats: tuple[tuple[str, str], ...]
    tokenizers: tuple[str, ...]
    max_upload_bytes: int
    empty: bool


def build(session: Reader, settings: SettingsDep, cursor: str | None = None) -> HomePage:
    found = runs.page(session, RUNS, cursor)
    return HomePage(
        title="Runs",
        crumbs=(Crumb("Runs"),),
        version=runs.version(session),
        runs=tuple(_card(session, row) for row in found.items),
        runs_total=found.total,
        runs_next=found.next,
        latest=_latest(session),
        uploads=tuple(_upload(upload) for upload in uploads.page(session, UPLOADS).items),
        formats=tuple((known.name, known.title) for known in FORMATS),
        tokenizers=tuple(known.name for known in tokenizers.page(session, 100).items),
        max_upload_bytes=settings.max_upload_bytes,
        empty=found.total == 0,
    )


def _card(session: ReadSession, row: runs.RunRow) -> RunCard:
    return RunCard(
        row.id, row.name, row.batches, row.rollouts, row.tokens, row.first_step, row.last_step, row.newest,
        reward_means(session, row.id),
    )  # fmt: skip


def reward_means(session: ReadSession, run_id: str, steps: int = SPARK_STEPS) -> tuple[float | None, ...]:
    """Mean rewards of the last batches of a run, in step order."""
    statement = (
        select(Batch.statistics)
        .where(Batch.run_id == run_id, Batch.state == "ready", Batch.step.is_not(None))
        .order_by(Batch.step.desc())
        .limit(steps)
    )
    found = session.scalars(statement).all()
    return tuple(statistics.get("reward", {}).get("mean") for statistics in reversed(found))


def _latest(session: ReadSession) -> tuple[BatchLine, ...]:
    found = batches.page(session, None, BATCHES).items
    names = _names(session, {batch.run_id for batch in found})
    return tuple(
        BatchLine(
            id=batch.id,
            run=names.get(batch.run_id, ""),
            step=batch.step,
            split=batch.split,
            rollouts=batch.rollouts,
            groups=batch.groups,
            created=batch.created,
            reward=batch.statistics.get("reward", {}).get("mean"),
            findings=count_severities(list(batch.codes.values())),
        )
        for batch in found
    )


def _names(session: ReadSession, run_ids: set[str]) -> dict[str, str]:
    rows = session.execute(select(Run.id, Run.name).where(Run.id.in_(run_ids)))
    return {row.id: row.name for row in rows}


def count_severities(severities: Sequence[str]) -> dict[str, int]:
    """How many findings there are of each severity, worst first, without the ones that there are none of."""
    return {kind: severities.count(kind) for kind in ("critical", "warning", "info") if kind in severities}


def _upload(upload: Upload) -> UploadLine:
    state = progress("ingest", upload)
    return UploadLine(
        id=upload.id,
        filename=upload.filename,
        state=upload.state,
        stage=str(state["stage"]),
        done=upload.done,
        total=upload.total,
        created=upload.created,
        format=upload.format,
        rows=upload.rows,
        problems=sum(upload.problem_counts.values()),
    )


PAGE = Page("/", "pages/home.html", HomePage, build, "runs")
