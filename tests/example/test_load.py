"""The examples come in like any other upload, once, and are what Vantage itself computes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.example import lines, load, small, story
from storage import arrays, batches, estimates, rollouts
from storage.database import read
from tests.working import Place, installation, make_template

ROWS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "two-tasks": small.two_tasks,
    "five-rewards": small.five_rewards,
    "example": partial(story.rows, 17),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Iterator[Place]:
    with installation(tmp_path, template) as found:
        yield found


def test_loading_twice_is_loading_once(place: Place) -> None:
    first = load(place.engine, place.jobs, place.settings)
    again = load(place.engine, place.jobs, place.settings)
    assert again == first and len(set(first)) == 3
    assert {id for _, id, _ in place.queued()} == set(first)


@pytest.mark.parametrize(("name", "groups"), [("two-tasks", 4), ("five-rewards", 1), ("example", 16)])
def test_what_is_recorded_is_what_is_computed(place: Place, name: str, groups: int) -> None:
    content = b"".join(lines({**story.HEADER, "run": name}, ROWS[name]()))
    receipt = place.ingest(content, f"{name}.jsonl")
    assert receipt["state"] == "succeeded" and receipt["problems"] == []
    (line,) = receipt["batches"]
    assert (line["run"], line["groups"], line["rollouts"]) == (name, groups, receipt["counts"]["rows"])
    with read(place.engine) as session:
        batch = batches.get(session, line["id"])
        assert batch is not None and batch.fields["group_id"] == batch.fields["advantages"] == "recorded"
        (grpo,) = [made for made in estimates.of_batch(session, batch.id) if made.convention == "grpo/verl"]
        computed = estimates.columns(session, grpo.id)
        for index, advantage in zip(computed["index"], computed["advantage"], strict=True):
            rollout = rollouts.get(session, batch.id, int(index))
            assert rollout is not None
            found = arrays.rollout_arrays(session, rollout, ("advantages", "response_mask"))
            recorded = np.asarray(found["advantages"])[np.asarray(found["response_mask"]) == 1]
            assert np.allclose(recorded, advantage, atol=1e-6)
