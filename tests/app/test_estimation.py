"""Asking for estimates, and what the worker stores."""

import json
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from app.errors import NotFound, Unprocessable
from app.estimation import describe, forget_step, request_estimate
from app.lifecycle import request_cancel
from storage import arrays, batches, estimates
from storage.database import read, write
from storage.models import Batch, Estimate, RunningMoments
from tests.working import Place

REWARDS = {"g0": [1.0, 0.6, 0.2, 0.0, 0.7], "g1": [1.0, 1.0]}


def rows(step: int = 1, shift: float = 0.0, tokens: bool = True, **extra: Any) -> bytes:
    found = []
    for group, rewards in REWARDS.items():
        for i, reward in enumerate(rewards):
            row: dict[str, Any] = {"step": step, "group_id": group, "data_source": group, **extra}
            row |= {"prompt": group, "response": f"{i}", "reward": reward + shift * i}
            if tokens:
                row |= {
                    "response_ids": [1, 2, 3],
                    "response_mask": [1, 0, 1],
                    "values": [0.5, 0.25, 0.125 * i],
                }
            found.append(json.dumps(row))
    return "\n".join([json.dumps({"_header": {"run": "r"}}), *found]).encode()


def batch_of(place: Place, content: bytes, **options: Any) -> str:
    body = place.ingest(content, **options)
    assert body["state"] == "succeeded", body["error"]
    (batch,) = body["batches"]
    return str(batch["id"])


def ask(place: Place, batch_id: str, **body: Any) -> tuple[str, bool]:
    return request_estimate(place.engine, place.jobs, batch_id, body)


def computed(place: Place, batch_id: str, **body: Any) -> dict[str, Any]:
    estimate_id, _ = ask(place, batch_id, **body)
    place.work()
    with read(place.engine) as session:
        found = describe(session, estimate_id)
    assert found["state"] == "succeeded", found["error"]
    return found


def test_group_advantages_are_one_number_per_rollout(place: Place) -> None:
    batch_id = batch_of(place, rows())
    found = computed(place, batch_id, convention="grpo/verl")
    assert found["per_token"] is False
    assert found["device"] == "cpu"
    assert found["progress"]["done"] == found["progress"]["total"] == 7
    with read(place.engine) as session:
        columns = estimates.columns(session, found["id"])
        assert arrays.fields(session, batch_id).count(f"advantages:{found['id']}") == 0
    rewards = np.array(REWARDS["g0"])
    expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(columns["advantage"][:5], expected, rtol=1e-12)
    assert columns["advantage"][5:].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(columns["total_abs"][:5], 2 * abs(expected), rtol=1e-12)


def test_token_advantages_are_stored_before_and_after_whitening(place: Place) -> None:
    batch_id = batch_of(place, rows())
    found = computed(
        place, batch_id, estimator="gae", params={"gamma": 1.0, "lam": 1.0}, whitening={"scope": "batch"}
    )
    with read(place.engine) as session:
        stored = {
            name: arrays.flat(session, batch_id, estimates.field(name, found["id"]))
            for name in ("advantages", "advantages_raw", "returns")
        }
    values = {name: array[0] for name, array in stored.items() if array is not None}
    mask = np.tile([True, False, True], 7)
    raw = values["advantages_raw"][mask]
    np.testing.assert_allclose(raw[:2], [1.0 - 0.5, 1.0 - 0.0], rtol=1e-12)
    np.testing.assert_allclose(values["returns"][mask][:2], [1.0, 1.0], rtol=1e-12)
    expected = (raw - raw.mean()) / np.sqrt(raw.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(values["advantages"][mask], expected, rtol=1e-9)
    summary = found["summary"]
    assert summary["over"] == "tokens"
    np.testing.assert_allclose(summary["raw"]["mean"], raw.mean(), rtol=1e-12)
    np.testing.assert_allclose(summary["std"], expected.std(ddof=1), rtol=1e-9)
    assert summary["signs"]["after"]["negative"] == int((expected < 0).sum())
    np.testing.assert_allclose(sum(group["share"] for group in summary["groups"]), 1.0, rtol=1e-12)


def test_the_same_request_is_the_same_estimate(place: Place) -> None:
    batch_id = batch_of(place, rows())
    first, created = ask(place, batch_id, estimator="gae", params={"lam": 0.95, "gamma": 1})
    assert created
    assert ask(place, batch_id, params={"gamma": 1.0, "lam": 0.95}, estimator="gae") == (first, False)
    other, created = ask(place, batch_id, estimator="gae", params={"gamma": 1, "lam": 0.9})
    assert created
    assert other != first


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"convention": "grpo/nobody"}, "grpo/nobody"),
        ({"estimator": "gae", "params": {"gama": 1}}, "gama"),
        ({"estimator": "gae", "whitening": {"scope": "sometimes"}}, "scope"),
        ({"estimator": "gae", "precision": "float16"}, "float16"),
        ({"estimator": "gae", "grouping": "stride:0"}, "stride"),
        ({}, "estimator or a convention"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(place: Place, body: dict[str, Any], sentence: str) -> None:
    batch_id = batch_of(place, rows())
    with pytest.raises(Unprocessable, match=sentence):
        request_estimate(place.engine, place.jobs, batch_id, body)


def test_a_missing_field_is_named_with_what_would_work(place: Place) -> None:
    batch_id = batch_of(place, rows(tokens=False))
    with pytest.raises(Unprocessable, match="values") as refused:
        ask(place, batch_id, convention="gae/verl")
    assert refused.value.members["missing"] == ["values"]
    assert "grpo" in refused.value.members["usable"]
    assert "gae" not in refused.value.members["usable"]
    assert refused.value.problems[0]["field"] == "values"


def test_an_unknown_batch_is_not_found(place: Place) -> None:
    with pytest.raises(NotFound, match="nope"):
        ask(place, "nope", convention="grpo/verl")
    with read(place.engine) as session, pytest.raises(NotFound):
        describe(session, "nope")


def test_rewards_alone_are_enough_for_groups(place: Place) -> None:
    batch_id = batch_of(place, rows(tokens=False))
    found = computed(place, batch_id, convention="dr_grpo/verl")
    assert found["summary"]["tokens"] is None
    assert found["summary"]["rollouts_without_tokens"] == 7
    with read(place.engine) as session:
        columns = estimates.columns(session, found["id"])
    np.testing.assert_allclose(columns["advantage"][:5], [0.5, 0.1, -0.3, -0.5, 0.2], atol=1e-12)


def test_grouping_by_prompt_and_by_stride(place: Place) -> None:
    batch_id = batch_of(place, rows())
    by_group = computed(place, batch_id, estimator="dr_grpo")
    by_prompt = computed(place, batch_id, estimator="dr_grpo", grouping="prompt")
    by_stride = computed(place, batch_id, estimator="dr_grpo", grouping="stride:7")
    with read(place.engine) as session:
        first, same, one = (
            estimates.columns(session, e["id"])["advantage"] for e in (by_group, by_prompt, by_stride)
        )
    np.testing.assert_array_equal(first, same)
    rewards = np.array([*REWARDS["g0"], *REWARDS["g1"]])
    np.testing.assert_allclose(one, rewards - rewards.mean(), rtol=1e-12)


def test_a_refusal_of_the_estimator_is_said(place: Place) -> None:
    row = {
        "group_id": "g",
        "response": "x",
        "response_ids": [1],
        "response_mask": [1],
        "values": [0.5],
        "reward": 1,
    }
    batch_id = batch_of(place, json.dumps(row).encode())
    estimate_id, _ = ask(place, batch_id, convention="gae/verl")
    place.work()
    with read(place.engine) as session:
        found = describe(session, estimate_id)
    assert found["state"] == "failed"
    assert "whiten" in found["error"].lower()
    again, created = ask(place, batch_id, convention="gae/verl")
    assert (again, created) == (estimate_id, False)
    assert [id for _, id, _ in place.queued()] == [estimate_id], "asking again tries again"


def test_a_cancelled_estimate_can_be_asked_for_again(place: Place) -> None:
    batch_id = batch_of(place, rows())
    estimate_id, _ = ask(place, batch_id, convention="grpo/trl-batch")
    assert request_cancel(place.engine, place.jobs, "estimate", estimate_id) == "cancelled"
    assert place.work() == 0
    assert ask(place, batch_id, convention="grpo/trl-batch") == (estimate_id, False)
    assert place.work() == 1
    with read(place.engine) as session:
        assert describe(session, estimate_id)["state"] == "succeeded"


RUNNING = {"estimator": "dr_grpo", "whitening": {"scope": "running", "unit": "response", "eps": 0.0}}


def running_expected(*steps: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The last step's advantages, whitened by the moments of all these steps' raw ones."""
    raw = []
    for shift in steps:
        for rewards in REWARDS.values():
            values = np.array(rewards) + shift * np.arange(len(rewards))
            raw.append(values - values.mean())
    every = np.concatenate(raw)
    last = np.concatenate(raw[-2:])
    return np.asarray((last - every.mean()) / every.std(ddof=1))


def advantages(place: Place, estimate_id: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    with read(place.engine) as session:
        return estimates.columns(session, estimate_id)["advantage"]


def test_running_whitening_sees_the_earlier_steps(place: Place) -> None:
    batch_of(place, rows(1, 0.0))
    batch_of(place, rows(2, 0.5))
    third = batch_of(place, rows(3, -1.0))
    found = computed(place, third, **RUNNING)
    np.testing.assert_allclose(advantages(place, found["id"]), running_expected(0.0, 0.5, -1.0), rtol=1e-9)
    assert found["summary"]["history"] == {"steps": 2, "gaps": [], "count": 14}
    with read(place.engine) as session:
        assert len(session.scalars(select(RunningMoments.batch_id).distinct()).all()) == 3


def test_a_step_that_comes_late_recomputes_what_follows(place: Place) -> None:
    batch_of(place, rows(1, 0.0))
    third = batch_of(place, rows(3, -1.0))
    found = computed(place, third, **RUNNING)
    np.testing.assert_allclose(advantages(place, found["id"]), running_expected(0.0, -1.0), rtol=1e-9)
    batch_of(place, rows(2, 0.5))
    np.testing.assert_allclose(advantages(place, found["id"]), running_expected(0.0, 0.5, -1.0), rtol=1e-9)
    again = batch_of(place, rows(2, 0.25))
    np.testing.assert_allclose(advantages(place, found["id"]), running_expected(0.0, 0.25, -1.0), rtol=1e-9)
    with write(place.engine) as session:
        gone = batches.get(session, again)
        assert gone is not None
        place_of = (gone.run_id, gone.split, gone.step)
        batches.delete(session, again)
        assert forget_step(session, place.jobs, *place_of) == [found["id"]]
    place.work()
    np.testing.assert_allclose(advantages(place, found["id"]), running_expected(0.0, 0.5, -1.0), rtol=1e-9)


def test_running_whitening_names_the_steps_it_could_not_use(place: Place) -> None:
    batch_of(place, rows(1, tokens=False))
    second = batch_of(place, rows(2))
    found = computed(place, second, estimator="td_error", whitening={"scope": "running"})
    assert found["summary"]["history"] == {"steps": 0, "gaps": [1], "count": 0}


def test_running_whitening_needs_a_step(place: Place) -> None:
    content = rows().replace(b'"step": 1, ', b"")
    batch_id = batch_of(place, content)
    with pytest.raises(Unprocessable, match="step"):
        ask(place, batch_id, **RUNNING)


def test_rollouts_without_the_mask_or_the_field_are_told_apart(place: Place) -> None:
    whole = {"group_id": "g", "response": "x", "response_ids": [1, 2], "values": [0.5, 0.25], "reward": 1.0}
    lacking = {"group_id": "g", "response": "y", "response_ids": [1, 2, 3], "reward": 0.0}
    bare = {"group_id": "g", "response": "z", "reward": 0.0}
    batch_id = batch_of(place, "\n".join(map(json.dumps, (whole, lacking, bare))).encode())
    found = computed(place, batch_id, estimator="gae")
    with read(place.engine) as session:
        stored = arrays.flat(session, batch_id, estimates.field("advantages", found["id"]))
    assert stored is not None
    values, lengths = stored
    assert lengths.tolist() == [2, 3, -1]
    assert np.isfinite(values[:2]).all()
    assert np.isnan(values[2:]).all()
    assert found["summary"]["rollouts_without_tokens"] == 1


def test_an_estimate_of_a_deleted_batch_ends_quietly(place: Place) -> None:
    batch_id = batch_of(place, rows())
    estimate_id, _ = ask(place, batch_id, convention="grpo/trl-batch")
    with write(place.engine) as session:
        batches.delete(session, batch_id)
    assert place.work() == 0
    with read(place.engine) as session:
        assert session.get(Estimate, estimate_id) is None
        assert session.scalars(select(Batch)).all() == []
