"""`/batches/{id}`: is there signal in this step, and where?"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Query
from sqlalchemy import select

from app.attempts import sentence
from app.deps import Reader
from app.errors import NotFound
from app.figures import FIGURES
from app.figures.chosen import Chosen
from app.figures.kept import columns_of
from app.figures.subject import source_codes
from app.pages.advantages import Picker, mean_advantages, pick
from app.pages.findings import FindingView, findings_of
from app.pages.listing import Asked, Listing, listing
from app.pages.page import Page
from app.pages.provenance import FieldLine, field_lines
from app.pages.request_form import RequestForm, form_for
from app.pages.run import ChartOf, Slice, budget_of
from app.pages.wall import Wall, wall
from app.templating import Crumb, with_query
from storage import batches, unchecked
from storage.database import ReadSession
from storage.models import Batch, Run

#: Figure -> the options that its place on this page gives it.
CHARTS: dict[str, dict[str, Any]] = {
    "group_rewards": {"sort": "std", "groups": 16},
    "group_advantages": {"groups": 16},
    "reward_histogram": {},
    "length_advantage": {},
    "token_heatmap": {"rows": 128},
}
#: What the page shows of a batch as it is stored.
AS_STORED = (
    "id", "step", "split", "format", "rollouts", "groups", "tokens", "created", "upload_id", "statistics",
    "header",
)  # fmt: skip
#: Titles where a batch has no tokens: the figure is drawn over the text.
WITHOUT_TOKENS = {"token_heatmap": "Advantage of every response"}


@dataclass(frozen=True, slots=True)
class Task:
    """One data source. `advantage`: mean over its rollouts; `positive`: share of them above 0."""

    name: str
    rollouts: int
    groups: int | None
    reward: float | None
    std: float | None
    pass_share: float | None
    zero_signal_share: float | None
    length: float | None
    advantage: float | None
    positive: float | None


@dataclass(frozen=True, slots=True)
class BatchPage:
    """`header`: what the file says of itself. `before`, `after`: batches of the neighbouring steps.
    `unchecked`: a sentence for each check that could not be done."""

    title: str
    crumbs: tuple[Crumb, ...]
    id: str
    run: str
    step: int | None
    split: str | None
    format: str
    rollouts: int
    groups: int
    tokens: int
    created: float
    upload_id: str
    before: str | None
    after: str | None
    statistics: dict[str, Any]
    findings: tuple[FindingView, ...]
    unchecked: tuple[str, ...]
    picker: Picker
    form: RequestForm
    budget: tuple[Slice, ...]
    wall: Wall
    charts: tuple[ChartOf, ...]
    tasks: tuple[Task, ...]
    listing: Listing
    fields: tuple[FieldLine, ...]
    header: dict[str, Any]


def build(
    session: Reader,
    batch_id: str,
    estimate: str | None = None,
    sort: str | None = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    order: str | None = None,
    q: Annotated[str | None, Query(max_length=500)] = None,
    task: str | None = None,
    cursor: str | None = None,
) -> BatchPage:
    batch = find_batch(session, batch_id)
    run = session.get_one(Run, batch.run_id)
    picker, chosen = pick(session, batch, estimate)
    before, after = neighbours(session, batch)
    return BatchPage(
        **{name: getattr(batch, name) for name in AS_STORED},
        title=name_of(batch),
        crumbs=(*way_to(run), Crumb(name_of(batch))),
        run=run.name,
        before=before,
        after=after,
        findings=findings_of(session, batch),
        unchecked=tuple(map(sentence, unchecked.of_batch(session, batch.id).values())),
        picker=picker,
        form=form_for(batch),
        budget=budget_of(batch.statistics),
        wall=wall(session, batch, chosen, sort, page),
        charts=charts_of(batch, picker.used.key),
        tasks=tasks_of(session, batch, chosen),
        listing=listing(session, batch, chosen, Asked(order, q, task, cursor)),
        fields=field_lines(batch.fields, batch.format),
    )


def find_batch(session: ReadSession, batch_id: str) -> Batch:
    batch = batches.get(session, batch_id)
    if batch is None:
        raise NotFound(
            "There is no such batch, or it is still being read; the first page lists those that are there."
        )
    return batch


def name_of(batch: Batch) -> str:
    """`Step 9`, `Step 9 · val`, or `Batch` where the file has no step."""
    step = "Batch" if batch.step is None else f"Step {batch.step}"
    return f"{step} · {batch.split}" if batch.split and batch.split != "train" else step


def way_to(run: Run) -> tuple[Crumb, ...]:
    return (Crumb("Runs", "/"), Crumb(run.name, f"/runs/{run.id}"))


def way_below(session: ReadSession, batch: Batch, estimate: str | None) -> tuple[Crumb, ...]:
    """The way to a page about a batch, under the estimate that its own page showed."""
    address = f"/batches/{batch.id}{with_query('', estimate=estimate)}"
    return (*way_to(session.get_one(Run, batch.run_id)), Crumb(name_of(batch), address))


def neighbours(session: ReadSession, batch: Batch) -> tuple[str | None, str | None]:
    """The newest batches of the step before and of the step after, in the same split."""
    if batch.step is None:
        return None, None
    place = Batch.split.is_(None) if batch.split is None else Batch.split == batch.split
    same = select(Batch.id).where(Batch.run_id == batch.run_id, Batch.state == "ready", place)
    before = same.where(Batch.step < batch.step).order_by(Batch.step.desc(), Batch.created.desc())
    after = same.where(Batch.step > batch.step).order_by(Batch.step, Batch.created.desc())
    return session.scalar(before.limit(1)), session.scalar(after.limit(1))


def charts_of(batch: Batch, estimate: str | None) -> tuple[ChartOf, ...]:
    """The figures of this page that exist, each at its address."""
    charts = []
    for name, options in CHARTS.items():
        figure = FIGURES.get(name)
        if figure is not None:
            asked = {**options, **({"estimate": estimate} if "estimate" in figure.options else {})}
            query = with_query("", **{key: value for key, value in asked.items() if key in figure.options})
            title = WITHOUT_TOKENS.get(name, figure.title) if not batch.tokens else figure.title
            charts.append(ChartOf(name, title, f"/api/v1/batches/{batch.id}/figures/{name}{query}"))
    return tuple(charts)


def tasks_of(session: ReadSession, batch: Batch, chosen: Chosen) -> tuple[Task, ...]:
    """One row per data source that the batch names; advantages under what is chosen."""
    sources = batch.statistics.get("data_sources") or []
    sums = advantages_by_task(session, batch, chosen) if sources else {}
    return tuple(task_of(source, *sums.get(source["data_source"], (0, 0.0, 0))) for source in sources)


def advantages_by_task(
    session: ReadSession, batch: Batch, chosen: Chosen
) -> dict[str | None, tuple[int, float, int]]:
    """Data source -> how many rollouts have an advantage, their sum, how many are above 0."""
    columns = columns_of(session, batch)
    means = mean_advantages(session, batch, chosen, columns)
    codes, names = source_codes(columns)
    known = ~np.isnan(means)
    own, values = codes[known] + 1, means[known]  # 0: no data source
    counts = np.bincount(own, minlength=len(names) + 1).tolist()
    sums = np.bincount(own, values, minlength=len(names) + 1).tolist()
    above = np.bincount(own[values > 0], minlength=len(names) + 1).tolist()
    return {name: (counts[i], sums[i], above[i]) for i, name in enumerate([None, *names]) if counts[i]}


def task_of(source: dict[str, Any], count: int, total: float, above: int) -> Task:
    return Task(
        name=source["data_source"],
        rollouts=source["rollouts"],
        groups=source["groups"],
        reward=source["mean"],
        std=source["std"],
        pass_share=source["pass_share"],
        zero_signal_share=source["zero_signal_share"],
        length=source["mean_length"],
        advantage=total / count if count else None,
        positive=above / count if count else None,
    )


PAGE = Page("/batches/{batch_id}", "pages/batch.html", BatchPage, build, "runs")
