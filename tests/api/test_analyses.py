"""Reconciliations and sweeps by REST, on both kinds of database."""

from typing import Any

import pytest

from tests.api.conftest import Service, refused
from tests.api.rows import jsonl

REWARDS = ((1.0, 0.0, 0.25, 0.75), (0.0, 0.0, 1.0, 0.5))


def made(advantages: Any, per_token: bool = False, **header: Any) -> bytes:
    """Two groups of four with recorded advantages, in the order of `REWARDS`."""
    rows = []
    flat = [value for group in REWARDS for value in group]
    for i, (reward, advantage) in enumerate(zip(flat, advantages, strict=True)):
        row: dict[str, Any] = {
            "step": 1,
            "group_id": f"g{i // 4}",
            "prompt": f"p{i // 4}",
            "response": f"r{i}",
        }
        row |= {"reward": reward, "response_ids": [1, 2, 3][: 1 + i % 3]}
        row |= {"advantages": [advantage] * (1 + i % 3)} if per_token else {"advantage": advantage}
        rows.append(row)
    return jsonl(rows, header)


def grpo(offset: float = 0.0) -> list[float]:
    found = []
    for group in REWARDS:
        mean = sum(group) / 4
        std = (sum((r - mean) ** 2 for r in group) / 3) ** 0.5
        found += [(r - mean) / (std + 1e-6) + offset for r in group]
    return found


def strided() -> list[float]:
    """What comes out when rows are cut into groups two by two."""
    flat = [value for group in REWARDS for value in group]
    found = []
    for start in range(0, 8, 2):
        pair = flat[start : start + 2]
        mean = sum(pair) / 2
        std = (sum((r - mean) ** 2 for r in pair)) ** 0.5
        found += [(r - mean) / (std + 1e-6) for r in pair]
    return found


def batch_with(service: Service, content: bytes, **query: Any) -> str:
    return str(service.upload(content, **query)["batches"][0]["id"])


@pytest.mark.parametrize("per_token", [False, True])
def test_recorded_advantages_are_recognised_as_soon_as_they_are_in(service: Service, per_token: bool) -> None:
    batch = batch_with(service, made(grpo(), per_token, framework="verl", adv_estimator="grpo"))
    answer = service.post(f"/batches/{batch}/reconcile", params={"wait": 60})
    assert answer.status_code == 200  # asked for after the upload already
    body = answer.json()
    assert (body["state"], body["kind"], body["default"]) == ("succeeded", "reconcile", True)
    assert body["recorded"] == ("token" if per_token else "rollout")
    assert body["verdict"] in ("match", "ambiguous")
    best = body["candidates"][0]
    assert "grpo/verl" in (best["convention"], *best["same_as"]) and best["mistake"] is None
    assert best["matched"] and (best["rollouts_matched"], best["rollouts"]) == (8, 8)
    assert best["max_abs_error"] < 1e-6 and best["explanation"]
    assert body["configured"]["convention"] == "grpo/verl" and body["unknown"] == []
    assert service.get(f"/analyses/{body['id']}") == body
    assert service.get(f"/batches/{batch}/analyses")["items"] == [body]
    assert "recorded_advantages_disagree" not in service.get(f"/batches/{batch}")["findings"]


def test_a_mistake_is_named_and_found_with_the_batch(service: Service) -> None:
    batch = batch_with(service, made(strided(), framework="verl", adv_estimator="grpo"))
    found = {said["code"]: said for said in service.get(f"/batches/{batch}/findings")}
    said = found["recorded_advantages_disagree"]
    # Pairs of rows are halves of the groups, too: that one of two mistakes was made does not prove which.
    assert said["severity"] == "warning" and not said["evidence"]["proved"]
    assert said["evidence"]["mistake"].startswith(("stride_grouping", "group_split"))
    assert said["evidence"]["configured"] == "grpo/verl" and said["rollouts"]
    body = service.post(f"/batches/{batch}/reconcile", params={"wait": 60}).json()
    assert body["candidates"][0]["mistake"] == said["evidence"]["mistake"]


def test_another_convention_than_the_header_names_is_a_finding(service: Service) -> None:
    content = made(grpo(), framework="verl", adv_estimator="grpo", norm_adv_by_std_in_grpo=False)
    batch = batch_with(service, content)
    found = {said["code"]: said for said in service.get(f"/batches/{batch}/findings")}
    said = found["recorded_advantages_disagree"]
    assert said["severity"] == "warning" and said["evidence"]["configured"] == "dr_grpo/verl"
    assert said["evidence"]["mistake"] is None and said["evidence"]["convention"].startswith("grpo")


def test_numbers_that_nothing_gives_are_a_finding_where_all_is_known(service: Service) -> None:
    odd = [0.3, -1.7, 0.9, 0.01, 2.5, -0.4, 1.1, -3.0]
    batch = batch_with(service, made(odd, framework="verl", adv_estimator="grpo"))
    found = {said["code"]: said for said in service.get(f"/batches/{batch}/findings")}
    assert found["recorded_advantages_disagree"]["evidence"]["verdict"] == "no_match"
    unnamed = batch_with(service, made(odd), run="unnamed")
    assert "recorded_advantages_disagree" not in service.get(f"/batches/{unnamed}")["findings"]


def test_nothing_recorded_is_an_answer(service: Service) -> None:
    batch = str(service.upload()["batches"][0]["id"])
    assert service.get(f"/batches/{batch}/analyses")["total"] == 0
    answer = service.post(f"/batches/{batch}/reconcile")
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/api/v1/analyses/{answer.json()['id']}"
    assert answer.json()["verdict"] is None
    service.work()
    body = service.get(f"/analyses/{answer.json()['id']}")
    assert (body["verdict"], body["recorded"], body["candidates"]) == ("nothing_recorded", None, [])


def test_what_the_caller_knows_goes_over_the_header(service: Service) -> None:
    batch = batch_with(service, made(grpo()))
    asked = {"convention": "dr_grpo/verl", "params": {"gamma": 0.5}}
    answer = service.post(f"/batches/{batch}/reconcile", json=asked)
    service.work()
    body = service.get(f"/analyses/{answer.json()['id']}")
    assert body["configured"]["convention"] == "dr_grpo/verl" and body["configured"]["params"] == {
        "gamma": 0.5
    }
    assert service.post(f"/batches/{batch}/reconcile", json=asked).json()["id"] == body["id"]
    assert service.get(f"/batches/{batch}/analyses")["total"] == 2
    refused(service.post(f"/batches/{batch}/reconcile", json={"convention": "x/y"}), 422, "no convention")
    refused(service.post(f"/batches/{batch}/reconcile", json={"params": {"gamma": 3}}), 422, "params.gamma")
    refused(service.post("/batches/nothing/reconcile"), 404, "no batch")


def test_a_sweep_gives_a_summary_per_point(filled: Service, batch: str) -> None:
    asked = {"estimator": "gae", "grid": {"gamma": [1.0, 0.5], "lam": [0.0, 1.0]}}
    answer = filled.post(f"/batches/{batch}/sweeps", json=asked)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/api/v1/analyses/{answer.json()['id']}"
    filled.work()
    body = filled.get(f"/analyses/{answer.json()['id']}")
    assert (body["kind"], body["state"], body["progress"]["unit"]) == ("sweep", "succeeded", "steps")
    assert [point["changed"] for point in body["points"]] == [
        {"gamma": gamma, "lam": lam} for gamma in (1.0, 0.5) for lam in (0.0, 1.0)
    ]
    for point in body["points"]:
        made = filled.estimate(batch, **{name: point["request"][name] for name in ("estimator", "params")})
        for name in ("count", "mean", "std", "min", "max"):
            assert point[name] == pytest.approx(made["summary"][name]), name
        assert point["quantiles"] == pytest.approx(made["summary"]["quantiles"])
        assert point["signs"] == made["summary"]["signs"]["after"] and point["over"] == "tokens"
    assert body["points"][0]["flips"] == {"count": 0, "share": 0.0}
    again = filled.post(f"/batches/{batch}/sweeps", json=asked)
    assert (again.status_code, again.json()["id"]) == (200, body["id"])


def test_a_sweep_keeps_its_idempotency_key(filled: Service, batch: str) -> None:
    asked = {"estimator": "grpo", "grid": {"whitening.scope": ["none", "group", "batch"]}}
    key = {"Idempotency-Key": "sweep-1"}
    first = filled.post(f"/batches/{batch}/sweeps", json=asked, headers=key)
    filled.work()
    second = filled.post(f"/batches/{batch}/sweeps", json=asked, headers=key)
    assert second.json()["id"] == first.json()["id"] and second.json()["state"] == "succeeded"
    assert [point["changed"]["whitening.scope"] for point in second.json()["points"]] == [
        "none",
        "group",
        "batch",
    ]
    other = filled.post(f"/batches/{batch}/sweeps", json={**asked, "precision": "float32"}, headers=key)
    refused(other, 422)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"estimator": "gae", "grid": {"lam": [0.5] * 300}}, ("300 points", "256")),
        ({"estimator": "gae", "grid": {}}, ("needs a grid",)),
        ({"estimator": "gae", "grid": {"lam": [2.0]}}, ("at most 1",)),
        ({"convention": "no/such", "grid": {"lam": [1.0]}}, ("no convention",)),
        ({"estimator": "gae", "grid": {"whitening.scope": ["running"]}}, ("running scope",)),
        ({"estimator": "gae", "grid": {"whitening.scope": ["rank"]}}, ("needs rank",)),
    ],
)
def test_a_sweep_that_cannot_be(
    filled: Service, batch: str, asked: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(filled.post(f"/batches/{batch}/sweeps", json=asked), 422, *words)


def test_an_analysis_is_listed_followed_and_cancelled(service: Service) -> None:
    batch = str(service.upload()["batches"][0]["id"])
    asked = {"estimator": "gae", "grid": {"lam": [0.5]}}
    id = service.post(f"/batches/{batch}/sweeps", json=asked).json()["id"]
    (job,) = [job for job in service.get("/jobs")["items"] if job["kind"] == "analysis"]
    assert (job["id"], job["title"], job["batch"], job["state"]) == (id, "sweep", batch, "queued")
    assert service.client.get("/jobs").status_code == 200
    cancelled = service.post(f"/analyses/{id}/cancel")
    assert cancelled.status_code == 200 and cancelled.json()["state"] == "cancelled"
    events = service.client.get(f"/api/v1/analyses/{id}/events")
    assert '"state":"cancelled"' in events.text
    again = service.post(f"/batches/{batch}/sweeps", json=asked)
    assert again.json()["id"] == id and again.json()["state"] == "queued"
    service.work()
    assert service.get(f"/analyses/{id}")["state"] == "succeeded"
    refused(service.post(f"/analyses/{id}/cancel"), 409, "nothing to cancel")


def test_an_analysis_goes_with_its_batch(service: Service) -> None:
    batch = batch_with(service, made(grpo()))
    id = service.get(f"/batches/{batch}/analyses")["items"][0]["id"]
    assert service.client.delete(f"/api/v1/batches/{batch}").status_code == 204
    refused(service.client.get(f"/api/v1/analyses/{id}"), 404, "no analysis")
    refused(service.client.get("/api/v1/analyses/nothing"), 404, "no analysis")


def test_a_large_batch_is_reconciled_by_a_job_that_adds_the_finding(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reconciling.MOST_TOKENS", 3)
    answer = service.post("/uploads", content=made(strided(), framework="verl", adv_estimator="grpo"))
    service.work()
    batch = service.get(f"/uploads/{answer.json()['id']}")["batches"][0]["id"]
    (analysis,) = service.get(f"/batches/{batch}/analyses")["items"]
    assert analysis["default"] and analysis["state"] == "succeeded" and analysis["progress"]["attempts"] == 1
    assert service.get(f"/batches/{batch}")["findings"]["recorded_advantages_disagree"] == "warning"
    said = {each["code"]: each for each in service.get(f"/batches/{batch}/findings")}
    assert said["recorded_advantages_disagree"]["evidence"]["mistake"]


def test_a_reproducer_is_a_file_that_shows_the_finding_again(filled: Service, batch: str) -> None:
    path = f"/api/v1/batches/{batch}/findings/truncated_rollouts/reproducer"
    answer = filled.client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert f'filename="truncated_rollouts-{batch}.jsonl"' in answer.headers["content-disposition"]
    header, *rows = answer.text.splitlines()
    assert '"reproducer"' in header and len(rows) == 1 and "What is 2+" not in answer.text
    tag = {"If-None-Match": answer.headers["etag"]}
    assert filled.client.get(path, headers=tag).status_code == 304
    assert "what is 2+" in filled.client.get(path, params={"texts": True}).text
    refused(filled.client.get(path.replace("truncated_rollouts", "nothing")), 404, "no finding", "It has")
    refused(filled.client.get("/api/v1/analyses/nothing/reproducer"), 404, "no analysis")


def test_only_reconciliations_have_reproducers(service: Service) -> None:
    batch = str(service.upload()["batches"][0]["id"])
    id = service.post(f"/batches/{batch}/reconcile").json()["id"]
    refused(service.client.get(f"/api/v1/analyses/{id}/reproducer"), 422, "has succeeded")
    service.work()
    answer = service.client.get(f"/api/v1/analyses/{id}/reproducer")
    assert answer.status_code == 200 and "nothing_recorded" in answer.text.splitlines()[0]
    assert len(answer.text.splitlines()) == 2
