"""`/batches/{id}/compare`: do the estimates of a batch agree, and where do two of them not?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.deps import Reader
from app.figures import FIGURES
from app.figures import chosen as choosing
from app.figures.chosen import Chosen
from app.figures.kept import columns_of
from app.figures.scopes import signs
from app.pages.advantages import Offer, Picker, pick
from app.pages.batch import find_batch, name_of, way_to
from app.pages.page import Page
from app.pages.run import ChartOf
from app.templating import Crumb, with_query
from storage.database import ReadSession
from storage.models import Batch, Run

FIGURE = "estimator_agreement"
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Apart:
    """A rollout that the two do not agree on."""

    index: int
    reward: float | None
    one: float
    other: float


@dataclass(frozen=True, slots=True)
class Pair:
    """`one` and `other` as what they are called; `turned` of `n` rollouts have another sign under the other.

    listed  those with another sign, the largest difference first; without any, those that differ most
    """

    one: str
    other: str
    n: int
    turned: int
    listed: tuple[Apart, ...]


@dataclass(frozen=True, slots=True)
class ComparePage:
    """`against`: key of the second set of advantages, None where there is none to compare with."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    picker: Picker
    offers: tuple[Offer, ...]
    against: str | None
    pair: Pair | None
    matrix: ChartOf
    scatter: ChartOf | None


def build(
    session: Reader, batch_id: str, estimate: str | None = None, against: str | None = None
) -> ComparePage:
    batch = find_batch(session, batch_id)
    picker, chosen = pick(session, batch, estimate)
    offers = tuple(
        each for each in picker.offers if each.state == "succeeded" and each.key != picker.used.key
    )
    second = against or (offers[0].key if offers else None)
    other = None if second is None else choosing.choose(session, batch, second)
    return ComparePage(
        title="Compare",
        crumbs=(
            *way_to(session.get_one(Run, batch.run_id)),
            Crumb(name_of(batch), f"/batches/{batch.id}{with_query('', estimate=picker.used.key)}"),
            Crumb("compare"),
        ),
        batch_id=batch.id,
        picker=picker,
        offers=offers,
        against=second,
        pair=None if other is None else pair_of(session, batch, chosen, other),
        matrix=chart_of(batch, "matrix", "All of them", {"estimate": estimate}),
        scatter=None
        if second is None
        else chart_of(batch, "scatter", "The two", {"estimate": picker.used.key, "against": second}),
    )


def chart_of(batch: Batch, name: str, title: str, options: dict[str, Any]) -> ChartOf:
    query = with_query("", **options)
    return ChartOf(name, title, f"/api/v1/batches/{batch.id}/figures/{FIGURES[FIGURE].name}{query}")


def pair_of(session: ReadSession, batch: Batch, one: Chosen, other: Chosen) -> Pair | None:
    """None where either has nothing to say."""
    if one.why is not None or other.why is not None:
        return None
    columns = columns_of(session, batch)
    first, second = (choosing.per_rollout(session, batch, each, columns) for each in (one, other))
    both = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    if not both.size:
        return None
    a, b = first[both], second[both]
    turned = signs(a) != signs(b)
    kept = np.flatnonzero(turned) if turned.any() else np.arange(both.size)
    order = kept[np.argsort(-np.abs(a[kept] - b[kept]), kind="stable")][:MOST_LISTED]
    rewards = columns.reward[both]
    listed = tuple(
        Apart(
            int(columns.index[both[i]]),
            float(rewards[i]) if np.isfinite(rewards[i]) else None,
            float(a[i]),
            float(b[i]),
        )
        for i in order.tolist()
    )
    return Pair(one.label, other.label, int(both.size), int(turned.sum()), listed)


PAGE = Page("/batches/{batch_id}/compare", "pages/compare.html", ComparePage, build, "runs")
