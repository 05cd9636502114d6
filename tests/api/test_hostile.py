"""Nonsense in every parameter of every call, with real ids around it: never a 5xx."""

from itertools import product
from typing import Any

import pytest

from tests.api.conftest import Service

TEXTS = ["", "-1", "1e309", "nan", "9" * 40, "'; --%", "[1]", "x" * 5000, "group_no:٣"]

#: Calls that never end for a running job, or are not about data.
LEFT_OUT = ("events", "/metrics", "/readyz", "/healthz")


@pytest.mark.parametrize("text", TEXTS)
def test_no_parameter_breaks_the_server(filled: Service, batch: str, text: str) -> None:
    estimate = filled.get(f"/batches/{batch}/estimates")["items"][0]["id"]
    upload = filled.get(f"/batches/{batch}")["provenance"]["upload"]
    known = {"batch_id": batch, "estimate_id": estimate, "upload_id": upload, "run": "rest", "index": "0"}
    analysis = filled.post(f"/batches/{batch}/reconcile").json()["id"]
    known |= {"other_id": "recorded", "analysis_id": analysis, "code": "zero_variance_groups"}
    key = {"Upload-Key": "of who begins something"}
    begun = filled.post("/transfers", json={"files": [{"filename": "a", "bytes": 3}]}, headers=key)
    known |= {"transfer_id": begun.json()["id"]}
    asked = 0
    for path, call in reading(filled.get("/openapi.json")):
        for parameter in (p for p in call.get("parameters", []) if p["in"] == "query"):
            for name in names(path):
                address = path.format(**known, name=name, group_id="code one", dashboard_id="x")
                answer = filled.client.get(address, params={parameter["name"]: text}, headers=key)
                assert answer.status_code < 500, (address, parameter["name"], answer.text)
                asked += 1
    assert asked > 30


def reading(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    paths = [(path, calls["get"]) for path, calls in document["paths"].items() if "get" in calls]
    return [(path, call) for path, call in paths if not any(word in path for word in LEFT_OUT)]


def names(path: str) -> list[str]:
    """What may stand for `{name}`."""
    if "/tracks/" in path:
        return ["values"]
    return ["reward_over_steps"] if "/runs/" in path else ["token_heatmap", "group_rewards"]


FEW: list[Any] = [None, 1e300, "x", [[]], {"a": {}}]
PIECES: list[Any] = [
    *FEW,
    None,
    -1,
    1e300,
    2**63,
    "",
    "x" * 100,
    [],
    [[]],
    {},
    {"a": {"b": []}},
    True,
    "\x00",
    "😀",
]


@pytest.mark.parametrize("field", ["convention", "estimator", "params", "whitening", "precision", "grouping"])
def test_no_estimate_request_breaks_the_server(service: Service, field: str) -> None:
    batch = service.upload()["batches"][0]["id"]
    for piece in PIECES:
        body = {"estimator": "gae", field: piece}
        answer = service.post(f"/batches/{batch}/estimates", json=body)
        assert answer.status_code in (200, 202, 422), (body, answer.text)


def test_no_parameter_of_an_estimator_breaks_the_server(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    estimators = service.get("/estimators")
    bodies = [
        {"estimator": item["name"], "params": {name: piece}}
        for item in estimators["items"]
        for name, piece in product(item["params"]["properties"], FEW)
    ]
    bodies += [
        {"estimator": "grpo", "whitening": {n: p}}
        for n, p in product(estimators["whitening"]["properties"], FEW)
    ]
    for body in bodies:
        answer = service.post(f"/batches/{batch}/estimates", json=body)
        assert answer.status_code in (200, 202, 422), (body, answer.text)
