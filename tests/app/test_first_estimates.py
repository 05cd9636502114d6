"""The estimates that are asked for with a batch."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select

from storage.database import read
from storage.models import Estimate
from tests.app.dumps import dump, jsonl
from tests.working import Place


def estimates_of(place: Place, batch_id: str) -> Iterator[tuple[str | None, str, bool]]:
    with read(place.engine) as session:
        found = select(Estimate).where(Estimate.batch_id == batch_id).order_by(Estimate.created, Estimate.id)
        for row in session.scalars(found):
            yield row.convention, row.state, row.default


@pytest.mark.parametrize(
    ("header", "conventions"),
    [
        ({}, {"grpo/verl", "gae/verl"}),
        ({"framework": "verl", "adv_estimator": "grpo"}, {"grpo/verl", "gae/verl"}),
        (
            {"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False},
            {"dr_grpo/verl", "gae/verl"},
        ),
        ({"framework": "trl"}, {"grpo/trl-group", "gae/verl"}),
        ({"adv_estimator": "gae", "gamma": 0.9}, {"gae/verl"}),
        ({"adv_estimator": "of my own"}, {"grpo/verl", "gae/verl"}),
    ],
)
def test_first_estimates_follow_the_header(
    place: Place, header: dict[str, Any], conventions: set[str]
) -> None:
    body = place.ingest(dump(**header))
    found = set(estimates_of(place, body["batches"][0]["id"]))
    assert found == {(name, "succeeded", True) for name in conventions}


def test_the_headers_gamma_is_used(place: Place) -> None:
    body = place.ingest(dump(adv_estimator="gae", gamma=0.9, lam=0.8))
    with read(place.engine) as session:
        row = session.scalars(select(Estimate).where(Estimate.batch_id == body["batches"][0]["id"])).one()
    assert (row.request["params"]["gamma"], row.request["params"]["lam"]) == (0.9, 0.8)


def test_no_group_estimate_without_groups_and_none_without_rewards(place: Place) -> None:
    alone = place.ingest(jsonl({"response": "a", "reward": 1.0}, {"response": "b", "reward": 0.0}))
    assert list(estimates_of(place, alone["batches"][0]["id"])) == []
    unscored = place.ingest(jsonl(*({"group_id": "g", "response": text} for text in "ab")))
    assert list(estimates_of(place, unscored["batches"][0]["id"])) == []
