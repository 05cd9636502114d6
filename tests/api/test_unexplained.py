"""Recorded advantages that nothing makes are said, with how far and where, if all that is needed is there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimators import Request, estimate
from tests.api.conftest import Service
from tests.api.rows import jsonl
from tests.cases.build import batch_from

DATA = Path(__file__).parent.parent / "data" / "wrong"
CODE, UNCHECKED = "recorded_advantages_disagree", "recorded_advantages_unchecked"
HEADER = {"framework": "verl", "adv_estimator": "gae", "gamma": 0.97, "lam": 0.9}


def said_of(service: Service, content: bytes, **query: Any) -> dict[str, dict[str, Any]]:
    (batch,) = service.upload(content, **query)["batches"]
    return {said["code"]: said for said in service.get(f"/batches/{batch['id']}/findings")}


@pytest.mark.parametrize(
    ("name", "off", "words"),
    [
        ("06a", 282, "correlation"),
        ("06b", 282, "one token too late"),
        ("06c", 67, "of rollouts 18 to 26"),
        ("06d", 36, "the last trainable token of each rollout"),
    ],
)
def test_what_no_candidate_matches_is_said(service: Service, name: str, off: int, words: str) -> None:
    content = (DATA / f"{name}.jsonl").read_bytes()
    said = said_of(service, content)
    found = said[CODE]
    assert found["severity"] == "warning" and words in found["explanation"]
    evidence = found["evidence"]
    assert (evidence["kind"], evidence["off"], evidence["compared"]) == ("unexplained", off, 282)
    # The place that it names is off by as much as it says.
    row = json.loads(content.splitlines()[1 + evidence["rollout"]])
    assert row["advantages"][evidence["token"]] == pytest.approx(evidence["value"])
    assert abs(evidence["value"] - evidence["computed"]) == pytest.approx(evidence["max_abs_error"])
    assert str(evidence["rollout"]) in found["title"] and UNCHECKED not in said


def rows_with(random: np.random.Generator) -> list[dict[str, Any]]:
    """Rows with everything that GAE needs, and the advantages that the header promises."""
    rows = []
    for i in range(12):
        length = int(random.integers(4, 12))
        mask = np.ones(length, dtype=int)
        mask[1 : 1 + i % 3] = 0
        rewards = np.zeros(length)
        rewards[-1] = random.normal()
        rows.append(
            {
                "step": 1, "group_id": f"g{i // 4}", "prompt": f"question {i // 4}", "rank": i // 3,
                "response_ids": list(range(length)), "response_mask": mask.tolist(),
                "token_level_rewards": rewards.tolist(), "values": random.normal(0, 0.4, length).tolist(),
            }
        )  # fmt: skip
    batch = batch_from(rows)
    params = {"gamma": HEADER["gamma"], "lam": HEADER["lam"]}
    made = estimate(batch, Request.from_dict({"convention": "gae/verl", "params": params})).advantages
    ends = batch.offsets.tolist()
    for i, row in enumerate(rows):
        own = made[ends[i] : ends[i + 1]].float().double().numpy()
        row["advantages"] = np.where(np.array(row["response_mask"]) > 0, own, 0.0).tolist()
    return rows


def uploaded(service: Service, rows: list[dict[str, Any]], run: str, **header: Any) -> dict[str, Any]:
    return said_of(service, jsonl([{"_header": HEADER | header}, *rows]), run=run)


@pytest.mark.parametrize("seed", range(4))
def test_the_worse_is_not_the_quieter(service: Service, seed: int) -> None:
    random = np.random.default_rng([seed, 41])
    rows = rows_with(random)
    assert uploaded(service, rows, "right") == {}

    def changed(**more: Any) -> list[dict[str, Any]]:
        return [row | {name: make(i, row) for name, make in more.items()} for i, row in enumerate(rows)]

    noise = changed(advantages=lambda i, row: random.normal(0, 1, len(row["advantages"])).tolist())
    assert uploaded(service, noise, "noise")[CODE]["severity"] == "warning"
    zeroed = changed(advantages=lambda i, row: [a * (i // 3 != 2) for a in row["advantages"]])
    found = uploaded(service, zeroed, "a rank")[CODE]
    assert "on rank 2" in found["explanation"] and set(found["rollouts"]) == {6, 7, 8}
    late = changed(advantages=lambda i, row: [0.0, *row["advantages"][:-1]])
    assert uploaded(service, late, "late")[CODE]["severity"] == "warning"
    # Of two numbers in a thousand that are off, the place is named.
    one = changed(
        advantages=lambda i, row: [a + (i == 5 and t == 0) for t, a in enumerate(row["advantages"])]
    )
    evidence = uploaded(service, one, "one")[CODE]["evidence"]
    assert (evidence["off"], evidence["rollout"], evidence["token"]) == (1, 5, 0)
    nearly = changed(
        advantages=lambda i, row: (np.array(row["advantages"]) * random.normal(1, 1e-3)).tolist()
    )
    assert uploaded(service, nearly, "nearly")[CODE]["severity"] == "info"


def test_what_cannot_be_told_accuses_nobody(service: Service) -> None:
    random = np.random.default_rng(7)
    rows = rows_with(random)
    for row in rows:
        row["advantages"] = random.normal(0, 1, len(row["advantages"])).tolist()
    blind = [{name: value for name, value in row.items() if name != "values"} for row in rows]
    said = uploaded(service, blind, "no values")
    assert CODE not in said
    assert said[UNCHECKED]["severity"] == "info" and said[UNCHECKED]["evidence"]["unknown"] == ["values"]
    scores = [
        {
            **{k: v for k, v in row.items() if k != "token_level_rewards"},
            "reward": 1.0 * (i % 2),
            "kl": [0.1] * n,
        }
        for i, row in enumerate(rows)
        for n in [len(row["values"])]
    ]
    said = uploaded(service, scores, "unknown KL")
    assert CODE not in said and "kl_coef" in said[UNCHECKED]["evidence"]["unknown"]
    odd = uploaded(service, rows, "odd key", adv_norm_by_moon=True)
    assert CODE not in odd and "adv_norm_by_moon" in odd[UNCHECKED]["title"]
    for name, header in (("framework", {"framework": "home-made"}), ("estimator", {"adv_estimator": "mine"})):
        said = uploaded(service, rows, f"unknown {name}", **header)
        assert not {CODE, UNCHECKED} & set(said)


@pytest.mark.parametrize(
    ("name", "setting", "configured", "recorded"),
    [("05a", "gamma", 1.0, 0.9), ("05b", "lam", 0.95, 0.5), ("05c", "gamma", 1.0, 0.9)],
)
def test_a_setting_that_contradicts_the_header_is_named(
    service: Service, name: str, setting: str, configured: float, recorded: float
) -> None:
    found = said_of(service, (DATA / f"{name}.jsonl").read_bytes())[CODE]
    assert found["severity"] == "warning" and found["evidence"]["kind"] == "setting"
    (said,) = found["evidence"]["contradicts"]
    assert (said["name"], said["configured"], said["recorded"]) == (setting, configured, recorded)
    assert said["uncertainty"] < 1e-4 and f"{recorded:g} (the file says {configured:g})" in found["title"]


def test_what_was_guessed_accuses_nobody(service: Service) -> None:
    content = (DATA / "01-completions_00001.parquet").read_bytes()
    assert CODE not in said_of(service, content, filename="completions_00001.parquet")
