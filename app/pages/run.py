"""`/runs/{run}`: at which step did it turn? Figures over the steps, and a row per batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from app.attempts import sentence
from app.deps import Reader
from app.errors import NotFound
from app.figures import FIGURES
from app.findings.of_run import kept_findings
from app.pages.findings import Named, evidence_of
from app.pages.home import count_severities
from app.pages.page import Page
from app.templating import Crumb
from storage import runs
from storage.database import ReadSession
from storage.models import Batch
from storage.runs import StepRow

PER_PAGE = 100
#: What a run's page draws, in this order, as far as the figures are there.
OVER_STEPS = ("reward_over_steps", "signal_over_steps", "advantage_over_steps", "length_over_steps")
#: Kinds of groups in the order of the signal budget, and their classes.
BUDGET = (
    ("fail", "all fail", "fail-all"),
    ("pass", "all pass", "pass-all"),
    ("near_zero", "next to no spread", "near"),
    ("mixed", "mixed", "mixed"),
    ("single", "single rollout", "flat"),
    ("unscored", "not scored", "none"),
)


@dataclass(frozen=True, slots=True)
class ChartOf:
    """A figure on a page: where it comes from."""

    name: str
    title: str
    src: str


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a stacked bar: how many groups, from which share of the width on, and how wide."""

    kind: str
    text: str
    css: str
    groups: int
    start: float
    share: float


@dataclass(frozen=True, slots=True)
class StepLine:
    """`replaced`: a newer batch of this step and split is there. `quantiles` of rewards: 5 25 50 75 95."""

    batch_id: str
    step: int | None
    split: str | None
    replaced: bool
    rollouts: int
    groups: int
    tokens: int
    created: float
    mean: float | None
    quantiles: tuple[float, ...] | None
    zero_signal_share: float | None
    budget: tuple[Slice, ...]
    length: float | None
    findings: dict[str, int]


@dataclass(frozen=True, slots=True)
class Newest:
    """The batch of the last step, and what is wrong with it."""

    batch_id: str
    step: int | None
    findings: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class ChangeView:
    """A finding of the run. `evidence`: label and number as text; `step` and `batch_id`: where it begins."""

    code: str
    severity: str
    title: str
    explanation: str
    remedy: str
    evidence: tuple[tuple[str, str], ...]
    step: int | None
    batch_id: str | None


@dataclass(frozen=True, slots=True)
class RunPage:
    """`events` tells an open page when the run has another `version`. `unchecked`: a sentence for each check
    that could not be done."""

    title: str
    crumbs: tuple[Crumb, ...]
    events: str
    version: str
    findings: tuple[ChangeView, ...]
    unchecked: tuple[str, ...]
    newest: Newest | None
    charts: tuple[ChartOf, ...]
    splits: tuple[str, ...]
    split: str | None
    steps: tuple[StepLine, ...]
    batches: int
    rollouts: int
    tokens: int
    first_step: int | None
    last_step: int | None
    low: float | None
    high: float | None
    page: int
    pages: int


def build(
    session: Reader,
    run_id: str,
    split: str | None = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> RunPage:
    found = runs.find(session, run_id)
    if found is None:
        raise NotFound("There is no such run; the first page lists those that there are.")
    rows = runs.steps(session, found.id)
    shown = [row for row in reversed(rows) if split is None or row.split == split]
    pages = max(1, -(-len(shown) // PER_PAGE))
    page = min(page, pages)
    lines = tuple(line_of(row) for row in shown[(page - 1) * PER_PAGE : page * PER_PAGE])
    ends = [value for line in lines if line.quantiles for value in (line.quantiles[0], line.quantiles[-1])]
    known = [row.step for row in rows if row.step is not None]
    checked = kept_findings([row for row in rows if split in (None, row.split)])
    return RunPage(
        title=found.name,
        crumbs=(Crumb("Runs", "/"), Crumb(found.name)),
        events=f"/api/v1/runs/{found.id}/events",
        version=runs.version(session, found.id),
        findings=tuple(map(change_of, checked.findings)),
        unchecked=tuple(map(sentence, checked.failed.values())),
        newest=newest_of(session, shown),
        charts=charts_of(found.id, split),
        splits=tuple(sorted({row.split for row in rows if row.split is not None})),
        split=split,
        steps=lines,
        batches=len(rows),
        rollouts=sum(row.rollouts for row in rows),
        tokens=sum(row.tokens for row in rows),
        first_step=min(known, default=None),
        last_step=max(known, default=None),
        low=min(ends, default=None),
        high=max(ends, default=None),
        page=page,
        pages=pages,
    )


def change_of(said: Mapping[str, Any]) -> ChangeView:
    return ChangeView(
        code=said["code"],
        severity=said["severity"],
        title=said["title"],
        explanation=said["explanation"],
        remedy=said["remedy"],
        evidence=tuple(evidence_of(said["evidence"])),
        step=said["step"],
        batch_id=said["batch"],
    )


def newest_of(session: ReadSession, shown: Sequence[StepRow]) -> Newest | None:
    """Of the rows shown, newest step first."""
    if not shown:
        return None
    batch = session.get_one(Batch, shown[0].batch_id)
    named = (Named(finding["code"], finding["severity"], finding["title"]) for finding in batch.findings)
    return Newest(batch.id, batch.step, tuple(named))


def charts_of(run_id: str, split: str | None) -> tuple[ChartOf, ...]:
    """The figures over steps that exist; narrowed to a split where they take one."""
    charts = []
    for name in OVER_STEPS:
        figure = FIGURES.get(name)
        if figure is not None:
            query = f"?split={split}" if split and "split" in figure.options else ""
            charts.append(ChartOf(name, figure.title, f"/api/v1/runs/{run_id}/figures/{name}{query}"))
    return tuple(charts)


def line_of(row: StepRow) -> StepLine:
    statistics = row.statistics
    reward = statistics.get("reward", {})
    quantiles = reward.get("quantiles")
    return StepLine(
        batch_id=row.batch_id,
        step=row.step,
        split=row.split,
        replaced=not row.newest,
        rollouts=row.rollouts,
        groups=row.groups,
        tokens=row.tokens,
        created=row.created,
        mean=reward.get("mean"),
        quantiles=tuple(quantiles.values()) if quantiles else None,
        zero_signal_share=statistics.get("zero_signal_share"),
        budget=budget_of(statistics),
        length=((statistics.get("length") or {}).get("all") or {}).get("mean"),
        findings=count_severities(list(row.codes.values())),
    )


def budget_of(statistics: Mapping[str, Any]) -> tuple[Slice, ...]:
    """The signal budget of a batch as parts of a bar; empty where it has no groups."""
    signal = statistics.get("signal")
    counts: dict[str, int] = signal["groups"] if signal else {}
    total = sum(counts.values())
    slices, start = [], 0.0
    for kind, text, css in BUDGET:
        if counts.get(kind):
            share = counts[kind] / total
            slices.append(Slice(kind, text, css, counts[kind], start, share))
            start += share
    return tuple(slices)


PAGE = Page("/runs/{run_id}", "pages/run.html", RunPage, build, "runs")
