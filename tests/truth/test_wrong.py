"""Right numbers that were called wrong, wrong ones that passed, and what broke: each file by REST."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Service, data_template, service

__all__ = ["data_template", "service"]

FILES = Path(__file__).parents[1] / "data" / "wrong"
ACCUSING = {"critical", "warning"}


class Uploaded:
    """One file, uploaded and worked on."""

    def __init__(self, service: Service, name: str) -> None:
        self.service, self.name = service, name
        self.receipt = service.upload((FILES / name).read_bytes(), filename=name)
        self.batch = str(self.receipt["batches"][0]["id"])

    @property
    def findings(self) -> dict[str, dict[str, Any]]:
        return {said["code"]: said for said in self.service.get(f"/batches/{self.batch}/findings")}

    def verdict(self, **asked: Any) -> dict[str, Any]:
        more = {"json": asked} if asked else {}
        answer = self.service.post(f"/batches/{self.batch}/reconcile", params={"wait": 0}, **more)
        assert answer.status_code in (200, 202), answer.text
        if answer.status_code == 202:
            self.service.work()
            answer = self.service.post(f"/batches/{self.batch}/reconcile", params={"wait": 0}, **more)
        body: dict[str, Any] = answer.json()
        return body

    def estimated(self, **body: Any) -> list[list[float]]:
        made = self.service.estimate(self.batch, **body)["id"]
        answer = self.service.client.get(f"/api/v1/estimates/{made}/advantages", params={"format": "jsonl"})
        rows = [json.loads(line) for line in answer.content.splitlines()]
        return [row["advantages"] for row in sorted(rows, key=lambda row: row["index"])]

    @property
    def recorded(self) -> list[list[float]]:
        lines = [json.loads(line) for line in (FILES / self.name).read_text().splitlines()]
        return [row["advantages"] for row in lines if "_header" not in row]


def named(verdict: dict[str, Any]) -> set[str]:
    """Conventions that give the recorded numbers without a mistake."""
    return {
        name
        for each in verdict["candidates"]
        if each["matched"] and each["mistake"] is None
        for name in (each["convention"], *each["same_as"])
    }


@pytest.mark.parametrize("name", ["01.jsonl", "01-completions_00001.parquet"])
def test_single_rollouts_with_components_are_stored(service: Service, name: str) -> None:
    found = Uploaded(service, name)
    assert found.service.get(f"/batches/{found.batch}")["rollouts"] > 0
    assert not [each for each in found.receipt["problems"] if each["severity"] == "error"]
    assert "reward_component_collapse" not in found.findings


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("02-rloo-trl.jsonl", {"convention": "rloo/trl", "params": {"normalize_advantages": True}}),
        ("02-gdpo-nemo.jsonl", {"convention": "gdpo/nemo"}),
    ],
)
def test_fully_masked_rollouts_count_where_responses_are_whitened(
    service: Service, name: str, body: dict[str, Any]
) -> None:
    found = Uploaded(service, name)
    lines = [json.loads(line) for line in (FILES / name).read_text().splitlines()]
    masks = [line["response_mask"] for line in lines if "response_mask" in line]
    for mask, mine, theirs in zip(masks, found.estimated(**body), found.recorded, strict=True):
        # No advantage of a masked token is used; ours are 0.
        kept = [value if counts else 0.0 for value, counts in zip(theirs, mask, strict=True)]
        assert mine == pytest.approx(kept, rel=1e-5, abs=1e-7)
    assert "recorded_advantages_disagree" not in found.findings
    assert body["convention"] in named(found.verdict())


def test_ids_that_read_alike_are_two_groups(service: Service) -> None:
    found = Uploaded(service, "03.jsonl")
    lines = [json.loads(line) for line in (FILES / "03.jsonl").read_text().splitlines()]
    for row, (value,) in zip(lines, found.estimated(convention="rloo_vectorized/verl"), strict=True):
        siblings = [each["reward"] for each in lines if each["group_id"] == row["group_id"]]
        rest = (sum(siblings) - row["reward"]) / (len(siblings) - 1)
        assert value == pytest.approx(row["reward"] - rest)


@pytest.mark.parametrize(
    ("name", "convention", "params"),
    [
        ("04-gae-openrlhf.jsonl", "gae/openrlhf", {"no_std_norm": True}),
        ("04-rloo-trl.jsonl", "rloo/trl", {"normalize_advantages": True, "beta": 0.0}),
        (
            "04-gdpo-verl.jsonl",
            "gdpo/verl",
            {"gdpo_reward_keys": ["accuracy", "format"], "gdpo_reward_weights": [0.3, 2.0]},
        ),
    ],
)
def test_options_of_a_framework_are_read(
    service: Service, name: str, convention: str, params: dict[str, Any]
) -> None:
    found = Uploaded(service, name)
    assert "recorded_advantages_disagree" not in found.findings
    assert convention in named(found.verdict())
    asked = found.verdict(convention=convention, params=params)
    assert asked["verdict"] in ("match", "ambiguous") and convention in named(asked)


@pytest.mark.parametrize(("name", "words"), [("05a.jsonl", "γ"), ("05b.jsonl", "λ"), ("05c.jsonl", "γ")])
def test_a_parameter_that_contradicts_the_header_is_a_finding(
    service: Service, name: str, words: str
) -> None:
    found = Uploaded(service, name).findings["recorded_advantages_disagree"]
    assert found["severity"] in ACCUSING and words in found["title"]


@pytest.mark.parametrize("name", ["06a.jsonl", "06b.jsonl", "06c.jsonl", "06d.jsonl"])
def test_numbers_that_nothing_explains_are_a_finding(service: Service, name: str) -> None:
    found = Uploaded(service, name)
    said = found.findings["recorded_advantages_disagree"]
    assert said["severity"] in ACCUSING and said["rollouts_total"] > 0
    assert said["evidence"]["max_abs_error"] > 0
    assert found.verdict()["verdict"] == "no_match"


def test_rewards_per_token_are_rewards(service: Service) -> None:
    found = Uploaded(service, "token-rewards-only.jsonl").findings["zero_variance_groups"]
    assert found["evidence"]["constant_groups"] == 4


@pytest.mark.parametrize("name", ["08-one-constant.jsonl", "08-two-constant.jsonl"])
def test_float32_is_that_of_the_framework_to_the_last_bit(service: Service, name: str) -> None:
    found = Uploaded(service, name)
    assert found.estimated(convention="grpo/verl", precision="float32") == found.recorded
    assert "recorded_advantages_disagree" not in found.findings


@pytest.mark.parametrize(
    ("name", "convention"),
    [
        ("09a.jsonl", "grpo/verl"),
        ("09b.jsonl", "grpo/verl"),
        ("10a.jsonl", "dr_grpo/trl"),
        ("10b.jsonl", "dr_grpo/trl"),
    ],
)
def test_residue_of_constant_groups_accuses_nobody(service: Service, name: str, convention: str) -> None:
    found = Uploaded(service, name)
    verdict = found.verdict()
    assert verdict["verdict"] in ("match", "ambiguous") and convention in named(verdict)
    assert verdict["candidates"][0]["mistake"] is None
    assert "recorded_advantages_disagree" not in found.findings


@pytest.mark.parametrize(
    ("name", "code"),
    [("11.jsonl", "singleton_groups"), ("12.jsonl", "task_offset"), ("12.jsonl", "split_group")],
)
def test_healthy_batches_are_left_alone(service: Service, name: str, code: str) -> None:
    found = Uploaded(service, name).findings.get(code)
    assert found is None or found["severity"] not in ACCUSING


def test_a_reward_that_its_token_rewards_do_not_sum_to_is_a_finding(service: Service) -> None:
    found = Uploaded(service, "turn-bonus-left-out-of-token-rewards.jsonl")
    assert "reward_sum_mismatch" in found.findings


def test_log_probs_that_part_in_one_turn_are_named_with_the_turn(service: Service) -> None:
    said = Uploaded(service, "log-probs-apart-in-one-turn.jsonl").findings["log_prob_gap_in_turn"]
    assert "turn" in said["title"]
