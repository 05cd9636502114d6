"""The reproducer of every verdict, and of every known mistake, gets the same answer when it is uploaded.

One way of making each mistake, and only the first tries of each search; all of both with `REPRODUCERS=all`.
"""

import os
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch

from app import reconciling, reproducer, shrinking
from app.analysis import request_reconcile
from app.replay import lines
from estimators.mistakes import MISTAKES
from estimators.reconcile import Hints, Verdict
from storage import analyses
from storage.database import read
from storage.models import Batch
from tests.app.test_reproducer import parsed, uploaded
from tests.app.traced_rows import Row, rows_of
from tests.estimators.reconcile_batches import generated, one_turn
from tests.estimators.test_reconcile import WRONG, _made_wrong, made_by
from tests.estimators.test_reconcile_mistakes import MADE, OF
from tests.working import Place

ALL = os.environ.get("REPRODUCERS") == "all"


def _name(label: str) -> str:
    name = label.partition(":")[0]
    return OF.get(name, name)


LABELS = (*MADE, *WRONG)
#: The first way of making each.
FIRST = tuple({_name(label): label for label in reversed(LABELS)}.values())


def wrong_rows(label: str) -> list[Row]:
    if label in MADE:
        made = MADE[label]()
        return rows_of(made.batch, made.advantages, made.hints)
    return rows_of(*_made_wrong(label), Hints())


def _noise() -> list[Row]:
    batch = generated()
    noise = torch.randn(batch.rollouts, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return rows_of(batch, noise.repeat_interleave(batch.lengths), Hints())


def _matching() -> list[Row]:
    batch = generated()
    return rows_of(batch, made_by("gae/openrlhf", batch, gamma=0.99, lam=0.9), Hints())


def _ambiguous() -> list[Row]:
    batch = one_turn()
    return rows_of(batch, made_by("dr_grpo/verl", batch), Hints())


def _bare() -> list[Row]:
    return [{name: value for name, value in row.items() if name != "advantages"} for row in _ambiguous()]


VERDICTS: dict[str, Callable[[], list[Row]]] = {
    "match": _matching,
    "ambiguous": _ambiguous,
    "no_match": _noise,
    "nothing_recorded": _bare,
}


def answered(place: Place, batch: Batch) -> dict[str, Any]:
    """The reconciliation of a batch: made as it came in, or by a job where that took too long."""
    with read(place.engine) as session:
        found = analyses.of_batch(session, batch.id)
    if not found or found[0].result is None:
        request_reconcile(place.engine, place.jobs, batch.id, {})
        place.work()
    with read(place.engine) as session:
        (analysis,) = analyses.of_batch(session, batch.id)
        assert analysis.result is not None
        return dict(analysis.result)


def reproduced(place: Place, batch: Batch) -> shrinking.Reproducer:
    with read(place.engine) as session:
        (analysis,) = analyses.of_batch(session, batch.id)
        return reproducer.of_analysis(session, place.settings, batch, analysis)


def comes_back(place: Place, rows: list[Row]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What is answered on the rows and on their reproducer, and how many rows that has."""
    batch = uploaded(place, lines({}, rows))
    first = answered(place, batch)
    made = reproduced(place, batch)
    header, kept = parsed(made)
    assert header["reproducer"]["of"] == first["verdict"] and 1 <= len(kept) <= len(rows)
    assert not any(row["prompt"].encode() in made.content for row in rows)
    return first, answered(place, uploaded(place, made.content, made.name)), len(kept)


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "MOST_SECONDS", 600.0)
    monkeypatch.setattr(shrinking, "MOST_SECONDS", 600.0)
    monkeypatch.setattr(shrinking, "MOST_TRIES", shrinking.MOST_TRIES if ALL else 1)


def test_every_verdict_and_every_mistake_has_a_batch() -> None:
    assert set(VERDICTS) == set(get_args(Verdict))
    assert {_name(label) for label in FIRST} == set(MISTAKES)


@pytest.mark.parametrize("label", LABELS if ALL else FIRST)
def test_loading_it_back_names_the_same_mistake(place: Place, label: str) -> None:
    first, again, _ = comes_back(place, wrong_rows(label))
    named = [{each["mistake"] for each in said["candidates"] if each["matched"]} for said in (first, again)]
    assert label in named[0] and label in named[1]
    assert again["verdict"] == first["verdict"]
    best, other = (said["candidates"][0] for said in (first, again))
    assert other["mistake"] == best["mistake"]
    assert best["convention"] in {other["convention"], *other["same_as"]}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_loading_it_back_gets_the_same_verdict(
    place: Place, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "MOST_TRIES", 6)
    rows = VERDICTS[verdict]()
    first, again, kept = comes_back(place, rows)
    assert first["verdict"] == again["verdict"] == verdict
    # Which convention it is of several that are much alike shows only in many rollouts.
    assert kept < len(rows) or verdict == "match"
