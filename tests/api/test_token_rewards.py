"""Batches whose rewards stand on tokens: the sum is the reward, labelled as derived, and everything that
looks at rewards sees it."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.estimation import outline_of
from estimators import ESTIMATORS, Request, missing
from tests.api.conftest import Service

WRONG = Path(__file__).parent.parent / "data" / "wrong"
RULE = "derived:sum(token_level_rewards)"


@pytest.fixture
def batch(service: Service) -> str:
    receipt = service.upload((WRONG / "token-rewards-only.jsonl").read_bytes())
    return str(receipt["batches"][0]["id"])


def findings(service: Service, batch: str) -> dict[str, Any]:
    return {said["code"]: said for said in service.get(f"/batches/{batch}/findings")}


def test_the_reward_is_there_and_said_to_be_derived(service: Service, batch: str) -> None:
    shown = service.get(f"/batches/{batch}")
    assert shown["fields"]["reward"] == RULE
    assert shown["fields"]["token_level_rewards"] == "recorded"
    rollouts = service.get(f"/batches/{batch}/rollouts")["items"]
    assert [each["reward"] for each in rollouts] == sums()
    page = service.client.get(f"/batches/{batch}/rollouts/0", headers={"Accept": "text/html"}).text
    assert "derived: sum(token_level_rewards)" in page
    page = service.client.get(f"/batches/{batch}", headers={"Accept": "text/html"}).text
    assert "derived: sum(token_level_rewards)" in page


def test_constant_groups_are_found(service: Service, batch: str) -> None:
    said = findings(service, batch)["zero_variance_groups"]
    assert said["severity"] == "critical" and said["evidence"]["constant_groups"] == 4


def test_sums_that_are_not_the_reward_are_said(service: Service) -> None:
    content = (WRONG / "turn-bonus-left-out-of-token-rewards.jsonl").read_bytes()
    found = findings(service, service.upload(content)["batches"][0]["id"])
    said = found["reward_sum_mismatch"]
    assert said["severity"] == "warning" and said["rollouts"] == [0, 1, 2, 3]
    assert said["evidence"]["reading"] == "component_left_out" and said["evidence"]["left_out"] == ["turn1"]
    assert said["evidence"]["largest_difference"] == pytest.approx(0.2)


def test_a_gap_in_one_turn_is_named_with_the_turn(service: Service) -> None:
    content = (WRONG / "log-probs-apart-in-one-turn.jsonl").read_bytes()
    said = findings(service, service.upload(content)["batches"][0]["id"])["log_prob_gap_in_turn"]
    assert said["severity"] == "warning" and said["rollouts_total"] == 8
    assert said["evidence"]["turns"] == [3]
    assert said["evidence"]["example"] == {"index": 0, "turn": 3, "first_token": 10, "last_token": 13}
    assert "turn 3" in said["title"] and "tokens 10 to 13" in said["title"]


def test_placeholders_at_the_end_of_responses_are_said(service: Service) -> None:
    content = (WRONG / "log-probs-zero-at-the-end.jsonl").read_bytes()
    found = findings(service, service.upload(content)["batches"][0]["id"])
    said = found["placeholder_log_probs"]
    assert set(said["evidence"]) == {"old_log_probs", "ref_log_probs"} and said["rollouts_total"] == 8


def test_the_figure_of_rewards_is_drawn(service: Service, batch: str) -> None:
    figure = service.get(f"/batches/{batch}/figures/reward_histogram")
    assert sum(map(sum, (trace["y"] for trace in figure["data"] if "y" in trace))) == len(sums())
    statistics = service.get(f"/batches/{batch}")["statistics"]
    assert statistics["reward"]["n"] == len(sums()) and statistics["signal"]["groups"]["fail"] > 0


def test_estimates_are_those_of_the_sum_counted_once(service: Service, batch: str) -> None:
    rows = [json.loads(line) for line in (WRONG / "token-rewards-only.jsonl").read_text().splitlines()]
    whole = b"".join(
        json.dumps(row | {"reward": sum(row["token_level_rewards"])}).encode() + b"\n" for row in rows
    )
    recorded = service.upload(whole, run="recorded")["batches"][0]["id"]
    for convention in ("grpo/verl", "dr_grpo/verl", "rloo/verl", "reinforce_plus_plus/verl"):
        one, other = (service.estimate(id, convention=convention)["id"] for id in (batch, str(recorded)))
        assert advantages(service, one) == advantages(service, other)


def advantages(service: Service, estimate: str) -> list[Any]:
    answer = service.client.get(f"/api/v1/estimates/{estimate}/advantages", params={"format": "jsonl"})
    assert answer.status_code == 200
    return [json.loads(line)["advantages"] for line in answer.content.splitlines()]


def test_needs_of_estimators_are_as_before() -> None:
    before = outline_of({"token_level_rewards": "recorded", "response_mask": "recorded"})
    after = outline_of({"token_level_rewards": "recorded", "response_mask": "recorded", "reward": RULE})
    for name in ESTIMATORS:
        request = Request.from_dict({"estimator": name})
        assert missing(before, request) == missing(after, request)


def sums() -> list[float]:
    lines = (WRONG / "token-rewards-only.jsonl").read_text().splitlines()
    return [sum(json.loads(line)["token_level_rewards"]) for line in lines]
