"""Estimates that look further than at one rollout: at the steps before, and at pairs of a group."""

import orjson
import pytest

from tests.api.conftest import Service, refused
from tests.api.rows import NO_TOKENS, ROWS, jsonl


def test_running_baselines_go_on_from_step_to_step_and_follow_a_step_that_comes_late(
    service: Service,
) -> None:
    def step(number: int, rewards: list[float]) -> str:
        rows = [{**NO_TOKENS[i], "step": number, "reward": reward} for i, reward in enumerate(rewards)]
        made: str = service.upload(jsonl(rows), run="r")["batches"][0]["id"]
        return made

    def advantages(estimate: str) -> list[float]:
        lines = service.client.get(
            f"/api/v1/estimates/{estimate}/advantages", params={"format": "jsonl"}
        ).content.splitlines()
        return [orjson.loads(line)["advantages"][0] for line in lines]

    step(1, [1.0, 1.0])
    last = step(3, [1.0, 0.0])
    made = service.estimate(last, convention="rae/prime-rl")
    baseline = 0.05 + 0.95 * 0.05
    assert made["summary"]["history"] == {"steps": 1, "gaps": []}
    assert advantages(made["id"]) == pytest.approx([1 - baseline, -(0.95 * baseline + 0.05)])
    step(2, [0.0])
    assert advantages(made["id"])[0] == pytest.approx(1 - 0.95 * baseline)


def test_what_follows_the_steps_of_a_run_needs_a_step(service: Service) -> None:
    rows = [{name: value for name, value in row.items() if name != "step"} for row in NO_TOKENS]
    batch = service.upload(jsonl(rows))["batches"][0]["id"]
    answer = service.post(f"/batches/{batch}/estimates", json={"convention": "rae/prime-rl"})
    refused(answer, 422, "steps of a run", "step=N")


def test_preference_pairs_are_in_the_summary(service: Service) -> None:
    rows = [{**row, "ref_log_probs": [p - 0.1 * row["reward"] for p in row["old_log_probs"]]} for row in ROWS]
    batch = service.upload(jsonl(rows))["batches"][0]["id"]
    pairs = service.estimate(batch, convention="dpo_implicit_reward")["summary"]["pairs"]
    assert (pairs["count"], pairs["ordered_rightly"]) == (2, 2)
    assert (pairs["first"][0]["chosen"], pairs["first"][0]["rejected"]) == (0, 1)
    assert pairs["first"][0]["margin"] == pytest.approx(0.1 * 0.1 * sum(ROWS[0]["response_mask"]))
