"""Healthy files get no alarm, dead ones get one, as uploaded through the REST API."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Service

DATA = Path(__file__).parent.parent / "data"


def said_of(service: Service, content: bytes, **query: Any) -> dict[str, dict[str, Any]]:
    (batch,) = service.upload(content, **query)["batches"]
    return {said["code"]: said for said in service.get(f"/batches/{batch['id']}/findings")}


def test_a_validation_split_with_one_sample_for_each_prompt(service: Service) -> None:
    content = (DATA / "wrong" / "11.jsonl").read_bytes()
    assert said_of(service, content) == {}
    trained = said_of(service, content, split="train", run="trained")
    assert trained["singleton_groups"]["severity"] == "critical"


@pytest.mark.parametrize("split", ["validation", "test", "eval", "val/aime24", "gsm8k-test", "held_out"])
def test_other_names_of_such_splits(service: Service, split: str) -> None:
    content = (DATA / "wrong" / "11.jsonl").read_bytes()
    assert said_of(service, content, split=split) == {}


def test_tasks_of_different_means_centred_by_group(service: Service) -> None:
    content = (DATA / "wrong" / "12.jsonl").read_bytes()
    assert said_of(service, content) == {}


def test_groups_of_one_that_subtract_themselves(service: Service) -> None:
    said = said_of(service, (DATA / "reports" / "04.jsonl").read_bytes())
    found = said["loss_zero_despite_reward_spread"]
    assert found["severity"] == "critical" and found["evidence"]["kind"] == "alone"
    assert "all 8 groups have one rollout" in found["title"]
    assert found["evidence"]["std_over_rollouts_ddof0"] == pytest.approx(0.5)
    assert found["evidence"]["recorded_zeros"] == 8 == found["rollouts_total"]
    assert "from 0.0000 to 2.0000" in found["explanation"] or "from 0 to 2" in found["explanation"]
