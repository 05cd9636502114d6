"""Files with honest headers, in each framework's own words: their advantages are what they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Service

DATA = Path(__file__).parents[1] / "data"
CODE = "recorded_advantages_disagree"


def reconciled(service: Service, content: bytes, **asked: Any) -> tuple[dict[str, Any], list[str]]:
    """The answer after the upload, or to what is asked; and the codes of the batch's findings."""
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
