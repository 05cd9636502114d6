"""What Vantage computes by a convention, recorded in a file and uploaded, is traced back to that convention.

Every EVERYth convention; all of them with `SWEEP_EVERY=1`.
"""

import json
import os
from itertools import pairwise
from typing import Any

from estimators import CONVENTIONS, Batch
from tests.api.conftest import Service
from tests.api.rows import jsonl
from tests.estimators.reconcile_batches import one_turn

EVERY = int(os.environ.get("SWEEP_EVERY", "13"))
PER_TOKEN = ("token_level_rewards", "values", "old_log_probs", "ref_log_probs", "sum_pi_squared")


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    """The batch as canonical rows; every other rollout has a masked token in its middle."""
    rows: list[dict[str, Any]] = []
    ends = batch.offsets.tolist()
    for row, (first, last) in enumerate(pairwise(ends)):
        mask = [1] * (last - first)
        if row % 2:
            mask[len(mask) // 2] = 0
        fields = {name: getattr(batch, name)[first:last].tolist() for name in PER_TOKEN}
        rows.append(
            {
                "step": 1,
                "group_id": f"g{int(batch.group[row])}",
                "prompt": f"question {int(batch.group[row])}",
                "response_ids": list(range(len(mask))),
                "response_mask": mask,
                "reward": float(batch.scores[row]),
                "reward_components": {name: float(part[row]) for name, part in batch.components.items()},
                **fields,
            }
        )
    return rows


def asked_for(service: Service, batch: str, rows: list[dict[str, Any]]) -> dict[str, bytes]:
    """Of each convention that applies, the rows with the advantages that it gives as recorded ones."""
    made = {}
    for name in list(CONVENTIONS)[::EVERY]:
        answer = service.post(f"/batches/{batch}/estimates", json={"convention": name})
        if answer.status_code < 400:
            made[name] = str(answer.json()["id"])
    service.work()
    files = {}
    for name, estimate in made.items():
        if service.get(f"/estimates/{estimate}")["state"] != "succeeded":
            continue
        text = service.client.get(f"/api/v1/estimates/{estimate}/advantages", params={"format": "jsonl"}).text
        found = {line["index"]: line["advantages"] for line in map(json.loads, text.splitlines())}
        files[name] = jsonl([row | {"advantages": found[i]} for i, row in enumerate(rows)])
    return files


def test_recorded_advantages_of_a_convention_are_traced_to_it(service: Service) -> None:
    rows = rows_of(one_turn())
    files = asked_for(service, str(service.upload(jsonl(rows))["batches"][0]["id"]), rows)
    assert len(files) >= 3
    uploads = {
        name: service.post(
            "/uploads", content=body, params={"filename": f"{place}.jsonl", "run": name}
        ).json()
        for place, (name, body) in enumerate(files.items())
    }
    service.work()
    for name, upload in uploads.items():
        made = service.get(f"/uploads/{upload['id']}")["batches"][0]["id"]
        found = service.post(f"/batches/{made}/reconcile", params={"wait": 60}).json()
        assert found["verdict"] in ("match", "ambiguous"), (name, found)
        named = [(each["convention"], each["mistake"]) for each in found["candidates"] if each["matched"]]
        assert (name, None) in named and named[0][1] is None, (name, named)
