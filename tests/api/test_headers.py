"""Files with honest headers, in each framework's own words: their advantages are what they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Service, refused

DATA = Path(__file__).parents[1] / "data"
CODE = "recorded_advantages_disagree"


def reconciled(service: Service, content: bytes, **asked: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The answer after the upload, or to what is asked; and the batch's findings: code -> severity."""
    batch = str(service.upload(content)["batches"][0]["id"])
    answer = service.post(f"/batches/{batch}/reconcile", json=asked or None)
    assert answer.status_code in (200, 202), answer.text
    service.work()
    return service.get(f"/analyses/{answer.json()['id']}"), service.get(f"/batches/{batch}")["findings"]


def header_changed(content: bytes, **changes: Any) -> bytes:
    """The file with other keys in its header; None takes one out."""
    first, _, rest = content.partition(b"\n")
    header = {**json.loads(first)["_header"], **changes}
    kept = {name: value for name, value in header.items() if value is not None}
    return json.dumps({"_header": kept}).encode() + b"\n" + rest


@pytest.mark.parametrize(
    "name", ["openrlhf_gae_no_std_norm", "trl_rloo_normalize", "verl_gdpo_weights"]
)  # fmt: skip
def test_options_of_the_header_are_what_is_compared_with(service: Service, name: str) -> None:
    content = (DATA / "wrong" / "04" / f"{name}.jsonl").read_bytes()
    body, findings = reconciled(service, content)
    assert body["verdict"] == "match" and CODE not in findings
    best, said = body["candidates"][0], body["configured"]
    assert said["convention"] in (best["convention"], *best["same_as"]) and best["mistake"] is None
    assert said["not_understood"] == []


@pytest.mark.parametrize(
    ("name", "convention", "params"),
    [
        ("openrlhf_gae_no_std_norm", "gae/openrlhf", {"no_std_norm": True}),
        ("trl_rloo_normalize", "rloo/trl", {"normalize_advantages": True, "beta": 0.0}),
        (
            "verl_gdpo_weights",
            "gdpo/verl",
            {"gdpo_reward_keys": ["accuracy", "format"], "gdpo_reward_weights": [0.3, 2.0]},
        ),
    ],
)
def test_reconcile_takes_what_estimates_take(
    service: Service, name: str, convention: str, params: dict[str, Any]
) -> None:
    content = (DATA / "wrong" / "04" / f"{name}.jsonl").read_bytes()
    bare = header_changed(content, framework=None, adv_estimator=None, **dict.fromkeys(params))
    body, _ = reconciled(service, bare, convention=convention, params=params)
    assert body["configured"]["convention"] == convention and body["verdict"] == "match"


@pytest.mark.parametrize(
    ("name", "convention"),
    [
        ("ms-swift-rloo-group", "grpo/trl-group"),
        ("ms-swift-reinforce_plus_plus-group", "grpo/trl-group"),
        ("trl-normalize_then_sum", "gdpo/trl"),
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_numbers_of_frameworks_that_group_by_place(
    service: Service, name: str, convention: str, shuffled: bool
) -> None:
    """Also where the file has the rows in another order than the trainer had."""
    header, *rows = (DATA / "headers" / f"{name}.jsonl").read_bytes().splitlines()
    rows = rows[::2] + rows[1::2] if shuffled else rows
    body, findings = reconciled(service, b"\n".join([header, *rows]))
    assert body["verdict"] == "match" and CODE not in findings
    assert body["configured"]["convention"] == convention == body["candidates"][0]["convention"]


def test_a_setting_that_did_not_take_effect_is_a_finding(service: Service) -> None:
    """`scale_rewards: none` in the header, divided by the std all the same."""
    body, findings = reconciled(service, (DATA / "headers" / "trl-scale_rewards-none.jsonl").read_bytes())
    assert body["configured"]["convention"] == "dr_grpo/trl" and CODE in findings
    assert body["candidates"][0]["convention"] == "grpo/trl-group"


def test_a_framework_that_is_not_known_is_said_to_be_unknown(service: Service) -> None:
    body, findings = reconciled(service, (DATA / "headers" / "trinity-asymre.jsonl").read_bytes())
    assert findings.get(CODE, "info") == "info"
    said = body["configured"]
    assert (said["convention"], said["framework"], said["estimator"]) == (None, None, None)
    assert (said["unknown_framework"], said["unknown_estimator"]) == ("trinity-rft", "asymre")
    assert said["not_understood"] == ["baseline_shift"]


@pytest.mark.parametrize(
    "params",
    [
        {"estimator": "gae", "no_std_norm": "True", "gamma": "1.0"},
        {"advantage_estimator": "gae", "no_std_norm": True, "init_kl_coef": "0", "lambd": 1},
    ],
)
def test_values_written_as_text_are_taken(service: Service, params: dict[str, Any]) -> None:
    content = (DATA / "wrong" / "04" / "openrlhf_gae_no_std_norm.jsonl").read_bytes()
    bare = header_changed(content, framework=None, adv_estimator=None, no_std_norm=None)
    body, _ = reconciled(service, bare, convention="gae/openrlhf", params=params)
    assert body["verdict"] == "match" and body["configured"]["params"]["no_std_norm"] is True


@pytest.mark.parametrize("convention", [None, "gae/openrlhf"])
def test_options_that_nothing_takes_are_refused(service: Service, convention: str | None) -> None:
    content = (DATA / "wrong" / "04" / "openrlhf_gae_no_std_norm.jsonl").read_bytes()
    batch = str(service.upload(content)["batches"][0]["id"])
    for params in ({"no_std_norm": "perhaps"}, {"learning_rate": 1e-6}, {"gamma": 3}):
        asked = {"params": params} | ({"convention": convention} if convention else {})
        refused(service.post(f"/batches/{batch}/reconcile", json=asked), 422, next(iter(params)))


@pytest.mark.parametrize("said", [{"adv_estimator": "grpo"}, {}])
def test_a_switch_of_which_nothing_is_said_accuses_nobody(service: Service, said: dict[str, Any]) -> None:
    """Divided by the std, and the header has no scale_rewards: either may have been meant."""
    content = (DATA / "headers" / "trl-scale_rewards-none.jsonl").read_bytes()
    kept = {"scale_rewards": None, "loss_type": None, "adv_estimator": None, "framework": "verl"}
    body, findings = reconciled(service, header_changed(content, **{**kept, **said, "framework": "trl"}))
    assert body["candidates"][0]["convention"] == "grpo/trl-group" and CODE not in findings
    centred = header_changed(content, **{**kept, **said}, norm_adv_by_std_in_grpo=None)
    header, *rows = centred.splitlines()
    parsed = [json.loads(row) for row in rows]
    for group in {row["group_id"] for row in parsed}:
        inside = [row for row in parsed if row["group_id"] == group]
        mean = sum(row["reward"] for row in inside) / len(inside)
        for row in inside:
            row["advantages"] = [row["reward"] - mean] * len(row["advantages"])
    lines = b"\n".join([header, *(json.dumps(row).encode() for row in parsed)])
    body, findings = reconciled(service, lines)
    assert body["candidates"][0]["mistake"] is None and findings.get(CODE, "info") == "info"
