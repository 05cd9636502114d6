"""`/batches/{id}/compare`: do the estimates of a batch agree, and where do two of them not?"""

import math
from dataclasses import dataclass
from typing import Any

from app.deps import Reader
from app.figures import FIGURES
from app.figures import chosen as choosing
from app.figures.agreement import Pair as Compared
from app.figures.agreement import over_rollouts, pair_of
from app.figures.chosen import RECORDED, Chosen
from app.figures.wording import told_apart
from app.pages.advantages import Offer, Picker, pick
from app.pages.batch import find_batch, name_of, way_to
from app.pages.page import Page
from app.pages.run import ChartOf
from app.pages.what_if import WhatIf, what_if
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
    """`one` and `other` as what they are called; `opposite` of `n` rollouts are negative under one of them
    and positive under the other; `rho`: Spearman's; `equal`: share with the same sign, − 0 or +.

    listed  those with opposite signs, the largest difference first; without any, those that differ most
    api     where all of them are listed, None where the first is not an estimate
    """

    one: str
    other: str
    n: int
    opposite: int
    rho: float | None
    equal: float | None
    greatest: float | None
    listed: tuple[Apart, ...]
    api: str | None


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
    what_if: WhatIf | None
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
        pair=None if other is None else held(session, batch, chosen, other),
        what_if=what_if(batch, chosen, against),
        matrix=chart_of(batch, "matrix", "All of them", {"estimate": estimate}),
        scatter=None
        if second is None
        else chart_of(batch, "scatter", "The two", {"estimate": picker.used.key, "against": second}),
    )


def chart_of(batch: Batch, name: str, title: str, options: dict[str, Any]) -> ChartOf:
    query = with_query("", **options)
    return ChartOf(name, title, f"/api/v1/batches/{batch.id}/figures/{FIGURES[FIGURE].name}{query}")


def held(session: ReadSession, batch: Batch, one: Chosen, other: Chosen) -> Pair | None:
    """None where either has nothing to say."""
    if one.why is not None or other.why is not None:
        return None
    pair = pair_of(session, batch, one, other)
    said = over_rollouts(pair)
    if not said["count"]:
        return None
    kept = pair.opposite if pair.opposite.any() else pair.both
    order = pair.furthest[kept[pair.furthest]][:MOST_LISTED]
    against = RECORDED if other.estimate is None else other.estimate.id
    names = told_apart((one, other))
    return Pair(
        one=names[0],
        other=names[1],
        n=said["count"],
        opposite=int(pair.opposite.sum()),
        rho=said["spearman"],
        equal=said["sign_agreement"],
        greatest=said["max_abs_difference"],
        listed=tuple(apart(pair, place) for place in order.tolist()),
        api=None
        if one.estimate is None
        else f"/api/v1/estimates/{one.estimate.id}/compare/{against}?sort=-difference",
    )


def apart(pair: Compared, place: int) -> Apart:
    reward = float(pair.reward[place])
    return Apart(
        int(pair.index[place]),
        reward if math.isfinite(reward) else None,
        float(pair.a[place]),
        float(pair.b[place]),
    )


PAGE = Page("/batches/{batch_id}/compare", "pages/compare.html", ComparePage, build, "runs")
