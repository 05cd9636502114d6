"""Estimates asked for, waited for, read and cancelled; their numbers on both kinds of database."""

import io
import threading
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.conftest import Service, refused
from tests.api.rows import GROUPS, LENGTHS, NO_TOKENS, REWARDS, ROWS, jsonl


@pytest.fixture(scope="package")
def grpo(filled: Service) -> dict[str, Any]:
    """The default estimate: one number per rollout."""
    return next(made for made in estimates_of(filled) if made["default"] and made["estimator"] == "grpo")


@pytest.fixture(scope="package")
def gae(filled: Service) -> dict[str, Any]:
    """The other default, as values are recorded: one number per token."""
    return next(made for made in estimates_of(filled) if made["default"] and made["estimator"] == "gae")


def estimates_of(service: Service) -> list[dict[str, Any]]:
    batch = service.get("/batches")["items"][0]["id"]
    found: list[dict[str, Any]] = service.get(f"/batches/{batch}/estimates")["items"]
    return found


def normalised(rewards: tuple[float, ...]) -> list[float]:
    values = np.array(rewards)
    found: list[float] = ((values - values.mean()) / (values.std(ddof=1) + 1e-6)).tolist()
    return found


def test_what_can_be_computed_is_listed(filled: Service) -> None:
    estimators = {item["name"]: item for item in filled.get("/estimators")["items"]}
    assert {"gae", "grpo", "td_error"} <= estimators.keys()
    assert estimators["gae"]["params"]["properties"]["gamma"]["default"] == 1.0
    assert "values" in estimators["gae"]["needs"]
    assert "gae/verl" in estimators["gae"]["conventions"]
    conventions = {item["name"]: item for item in filled.get("/conventions")["items"]}
    assert {"gae/verl", "gae/openrlhf", "grpo/trl-group", "dr_grpo/trl"} <= conventions.keys()
    assert conventions["gae/verl"]["whitening"]["scope"] == "batch"


def test_the_default_estimates_are_there(filled: Service, grpo: dict[str, Any], gae: dict[str, Any]) -> None:
    assert grpo["default"] and gae["default"]
    assert (grpo["per_token"], gae["per_token"]) == (False, True)
    shown = filled.get(f"/estimates/{grpo['id']}")
    assert shown["summary"]["count"] == 12
    assert shown["summary"]["signs"]["after"]["zero"] == 4


def test_advantages_of_a_rollout_are_those_of_the_convention(filled: Service, grpo: dict[str, Any]) -> None:
    expected = normalised(REWARDS[0])
    for index, length in enumerate(LENGTHS):
        shown = filled.get(f"/estimates/{grpo['id']}/advantages", params={"rollout": index})
        mask = ROWS[index]["response_mask"]
        assert shown["index"] == index and shown["group_id"] == GROUPS[0]
        assert shown["response_mask"] == mask
        assert shown["advantages"] == pytest.approx([expected[index] * m for m in mask])
        assert shown["advantages_raw"] == shown["advantages"]
        assert len(shown["advantages"]) == length
        assert shown["returns"] == shown["advantages_raw"] and shown["nonfinite"] == {}


def test_advantages_per_token_have_returns(filled: Service, gae: dict[str, Any]) -> None:
    shown = filled.get(f"/estimates/{gae['id']}/advantages", params={"rollout": 2})
    assert len(shown["advantages"]) == len(shown["returns"]) == len(shown["response_mask"]) == 4
    assert shown["advantages"] != shown["advantages_raw"]


@pytest.mark.parametrize("kind", ["grpo", "gae"])
def test_the_whole_batch_is_the_same_in_every_format(
    filled: Service, kind: str, request: pytest.FixtureRequest
) -> None:
    estimate = request.getfixturevalue(kind)
    path = f"/api/v1/estimates/{estimate['id']}/advantages"
    answers = {
        name: filled.client.get(path, params={"format": name})
        for name in ("jsonl", "arrow", "parquet", "npz")
    }
    for name, answer in answers.items():
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].endswith(f'.{name}"')
    lines = [orjson.loads(line) for line in answers["jsonl"].content.splitlines()]
    assert sorted(line["index"] for line in lines) == list(range(12))
    for line in lines:
        assert line == filled.get(
            f"/estimates/{estimate['id']}/advantages", params={"rollout": line["index"]}
        )
    rows = [{name: value for name, value in line.items() if name != "nonfinite"} for line in lines]
    assert pa.ipc.open_stream(answers["arrow"].content).read_all().to_pylist() == rows
    assert pq.read_table(io.BytesIO(answers["parquet"].content)).to_pylist() == rows
    arrays = np.load(io.BytesIO(answers["npz"].content))
    assert arrays["index"].tolist() == [row["index"] for row in rows]
    for name in ("advantages", "advantages_raw", "returns", "response_mask"):
        assert arrays[name].tolist() == [value for row in rows for value in row[name]]
    assert arrays["response_offsets"].tolist()[-1] == 3 * sum(LENGTHS)


def test_lists_can_show_an_estimate(filled: Service, batch: str, grpo: dict[str, Any]) -> None:
    asked = {"estimate": grpo["id"], "sort": "-advantage", "limit": 2}
    best = filled.get(f"/batches/{batch}/rollouts", params=asked)["items"]
    assert best[0]["index"] == 0 and best[0]["advantage"] == pytest.approx(normalised(REWARDS[0])[0])
    groups = filled.get(f"/batches/{batch}/groups", params={"estimate": grpo["id"], "sort": "-total_abs"})[
        "items"
    ]
    assert groups[-1]["group_id"] == GROUPS[1] and groups[-1]["total_abs"] == 0
    group = filled.get(f"/batches/{batch}/groups/{GROUPS[0]}", params={"estimate": grpo["id"]})
    assert [member["advantage"] for member in group["members"]] == pytest.approx(normalised(REWARDS[0]))


def test_a_request_is_computed_once(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    body = {"estimator": "grpo", "params": {"epsilon": 0.5}, "whitening": {"scope": "batch"}}
    first = service.post(f"/batches/{batch}/estimates", json=body)
    assert first.status_code == 202
    where = first.headers["location"]
    assert where == f"/api/v1/estimates/{first.json()['id']}"
    assert service.client.get(where).json()["state"] == "queued"
    refused(service.client.get(f"{where}/advantages", params={"rollout": 0}), 409, "queued")
    service.work()
    again = service.post(f"/batches/{batch}/estimates", json=body)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.json()["request"]["params"]["epsilon"] == 0.5
    assert again.json()["state"] == "succeeded"


def test_waiting_for_a_new_estimate(service: Service) -> None:
    """The worker takes it up while the request waits."""
    batch = service.upload()["batches"][0]["id"]
    worker = threading.Thread(target=work_soon, args=(service,))
    worker.start()
    answer = service.post(
        f"/batches/{batch}/estimates", params={"wait": 30}, json={"convention": "dr_grpo/verl"}
    )
    worker.join()
    assert answer.status_code == 201
    assert answer.json()["state"] == "succeeded"
    assert answer.headers["location"] == f"/api/v1/estimates/{answer.json()['id']}"


def work_soon(service: Service) -> None:
    """Work as soon as something is queued."""
    while not service.place.queued():
        pass
    service.work()


def test_waiting_in_vain_is_202(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    answer = service.post(
        f"/batches/{batch}/estimates", params={"wait": 0.1}, json={"convention": "dr_grpo/verl"}
    )
    assert answer.status_code == 202 and answer.json()["state"] == "queued"


def test_cancelling(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    made = service.post(f"/batches/{batch}/estimates", json={"convention": "dr_grpo/verl"}).json()
    answer = service.post(f"/estimates/{made['id']}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert service.post(f"/estimates/{made['id']}/cancel").status_code == 200
    events = service.client.get(f"/api/v1/estimates/{made['id']}/events").text
    assert '"state":"cancelled"' in events
    done = service.get(f"/batches/{batch}/estimates")["items"][-1]
    refused(service.post(f"/estimates/{done['id']}/cancel"), 409, "nothing to cancel")


def test_what_the_batch_lacks_is_named_with_what_would_work(service: Service) -> None:
    batch = service.upload(jsonl(NO_TOKENS))["batches"][0]["id"]
    body = refused(
        service.post(f"/batches/{batch}/estimates", json={"convention": "gae/verl"}), 422, "values", "grpo"
    )
    assert "values" in body["missing"] and "grpo" in body["usable"]
    assert body["problems"][0]["field"] == "values"


def test_rollouts_without_tokens_stand_as_one(service: Service) -> None:
    batch = service.upload(jsonl(NO_TOKENS))["batches"][0]["id"]
    made = service.estimate(batch, convention="grpo/verl")
    shown = service.get(f"/estimates/{made['id']}/advantages", params={"rollout": 3})
    assert shown["response_mask"] is None
    assert shown["advantages"] == pytest.approx([normalised((0.0, 1.0, 2.0, 3.0))[3]])
    whole = service.client.get(f"/api/v1/estimates/{made['id']}/advantages", params={"format": "npz"})
    assert np.load(io.BytesIO(whole.content))["advantages"].shape == (4,)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, ["estimator or a convention"]),
        ({"convention": "grpo/nobody"}, ["no convention", "grpo/verl"]),
        ({"estimator": "nothing"}, ["no estimator", "gae"]),
        ({"estimator": "gae", "params": {"gama": 1}}, ["no 'gama'", "gamma"]),
        ({"estimator": "gae", "params": {"gamma": "one"}}, ["gamma"]),
        ({"estimator": "gae", "params": {"gamma": -1}}, ["gamma"]),
        ({"estimator": "gae", "params": [1]}, ["params"]),
        ({"estimator": "grpo", "whitening": {"scope": "galaxy"}}, ["scope"]),
        ({"estimator": "grpo", "whitening": "batch"}, ["whitening"]),
        ({"estimator": "grpo", "precision": "float16"}, ["precision"]),
        ({"estimator": "grpo", "grouping": "stride:0"}, ["stride"]),
        ({"estimator": "grpo", "grouping": "stride:99999999999999999999"}, ["stride"]),
        ({"estimator": "grpo", "whitening": {"scope": "rank"}}, ["rank"]),
        ({"estimator": "grpo", "colour": "red"}, ["colour"]),
        ({"convention": "grpo/verl", "estimator": "gae"}, ["grpo"]),
        ({"convention": 7}, ["convention"]),
        ({"estimator": "gae", "params": {"gamma": 10**400}}, ["json"]),
    ],
)
def test_refused_requests_say_what_is_wrong(
    filled: Service, batch: str, body: dict[str, Any], words: list[str]
) -> None:
    answer = filled.post(f"/batches/{batch}/estimates", json=body)
    refused(answer, 400 if words == ["json"] else 422, *words)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, ["rollout=", "format="]),
        ("?rollout=0&format=npz", 400, ["which"]),
        ("?rollout=12", 404, ["no rollout 12"]),
        ("?rollout=-1", 422, ["rollout"]),
        ("?rollout=1e3", 422, ["rollout"]),
        ("?format=pickle", 422, ["format"]),
    ],
)
def test_refused_questions_for_advantages(
    filled: Service, grpo: dict[str, Any], query: str, status: int, words: list[str]
) -> None:
    refused(filled.client.get(f"/api/v1/estimates/{grpo['id']}/advantages{query}"), status, *words)


@pytest.mark.parametrize(
    "path", ["/estimates/nothing", "/estimates/nothing/advantages?rollout=0", "/estimates/nothing/events"]
)
def test_estimates_that_are_not_there(filled: Service, path: str) -> None:
    refused(filled.client.get(f"/api/v1{path}"), 404, "no estimate")


def test_neither_batch_nor_estimate_to_post_to(filled: Service) -> None:
    refused(filled.post("/batches/nothing/estimates", json={"convention": "grpo/verl"}), 404, "no batch")
    refused(filled.post("/estimates/nothing/cancel"), 404, "no estimate")


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "soon"])
def test_waits_that_cannot_be(filled: Service, batch: str, wait: str) -> None:
    answer = filled.post(f"/batches/{batch}/estimates?wait={wait}", json={"convention": "grpo/verl"})
    refused(answer, 422, "wait")
