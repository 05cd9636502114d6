"""A check that raises costs nothing: the rows are stored and shown, and what is not known is said."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from structlog.testing import capture_logs

from app import findings
from app.findings.of_run import RUN_FINDINGS
from tests.pages.conftest import Site

pytestmark = pytest.mark.failing_checks

#: Stands in every message and every rollout; no log, receipt or page about a failure may quote it.
SECRET = "what the model wrote"
Plant = Callable[[pytest.MonkeyPatch], None]


def boom(*_: Any, **__: Any) -> Any:
    raise IndexError(SECRET)


def unstorable(_: Any) -> dict[str, Any]:
    return {"severity": "info", "title": "Of no use.", "evidence": {"what": object()}}


def swapped(registry: dict[str, Any], code: str, **members: Any) -> Plant:
    return lambda patch: patch.setitem(registry, code, replace(registry[code], **members))


def set_to(target: str, value: Any = boom) -> Plant:
    return lambda patch: patch.setattr(target, value)


def rows(steps: int = 1) -> bytes:
    made = [
        {
            "step": step, "group_id": f"g{i // 4}", "prompt": f"p{i // 4}",
            "response": f"{SECRET} {step} {i}", "response_ids": [i, 2, 3], "response_mask": [1, 1, 1],
            "token_level_rewards": [0.0, 0.0, float(i % 2)], "reward": float(i % 2),
            "old_log_probs": [-0.5 - i / 100, -0.25, -0.125],
            "advantages": [(-1.0) ** (i + 1) * 0.8660254] * 3,
        }
        for step in range(steps)
        for i in range(16)
    ]  # fmt: skip
    header = {"_header": {"framework": "verl", "adv_estimator": "grpo"}}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (header, *made))


PLANTED: dict[str, tuple[str, str, Plant]] = {
    "a finding": (
        "singleton_groups", "Groups with a single scored rollout",
        swapped(findings.FINDINGS, "singleton_groups", check=boom),
    ),
    "a finding whose report is no JSON": (
        "empty_response", "Empty responses", swapped(findings.FINDINGS, "empty_response", check=unstorable),
    ),
    "the beginning of an observer": (
        "padding_trainable", "Padding is trained on",
        swapped(findings.OBSERVERS, "padding_trainable", begin=boom),
    ),
    "an observer": (
        "positive_log_probs", "Log-probabilities above 0",
        swapped(findings.OBSERVERS, "positive_log_probs", observe=boom),
    ),
    "the statistics": ("statistics", "Statistics of the batch", set_to("app.findings.batch_statistics")),
    "statistics that are no JSON": (
        "statistics", "Statistics of the batch",
        set_to("app.findings.batch_statistics", lambda view: {"mean": view}),
    ),
    "the reading of the tokens": (
        "findings", "All findings of the batch", set_to("app.findings.reading.token_facts.observe"),
    ),
    "the verdict": (
        "reconciliation", "What made the recorded advantages", set_to("app.reconciling.reconcile"),
    ),
    "the choice of the first estimates": (
        "first_estimates", "Which estimates to compute first", set_to("app.summing.default_requests"),
    ),
    "the request of the first estimates": (
        "first_estimates", "Which estimates to compute first", set_to("app.summing.ask"),
    ),
}  # fmt: skip


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", " ", page)).split())


@pytest.mark.parametrize("sort", PLANTED)
def test_the_upload_stands_whatever_check_raises(
    fresh: Site, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    code, title, plant = PLANTED[sort]
    plant(monkeypatch)
    with capture_logs() as logs:
        receipt = fresh.place.ingest(rows(), filename="rows.jsonl", run="r")
    assert (receipt["state"], receipt["error"]) == ("succeeded", None)
    assert receipt["counts"] == {"rows": 16, "accepted": 16, "rejected": 0}
    (batch,) = receipt["batches"]
    address = f"/api/v1/batches/{batch['id']}"
    assert fresh.data(f"{address}/rollouts?limit=50")["total"] == 16

    said = {"check": code, "title": title, "message": f"Could not be checked: {title}."}
    assert batch["unchecked"] == [said]
    assert fresh.data(f"/api/v1/uploads/{receipt['id']}")["batches"][0]["unchecked"] == [said]
    assert fresh.data(address)["unchecked"] == [said]
    assert fresh.client.get(f"{address}/findings").headers["X-Unchecked"] == code
    for path in (f"/uploads/{receipt['id']}", f"/batches/{batch['id']}"):
        assert said["message"].removesuffix(".") in text_of(fresh.page(path)), path
    assert "Nothing stands out" not in fresh.page(f"/batches/{batch['id']}")

    lines = [line for line in logs if line["event"] == "check failed"]
    assert lines and {line["check"] for line in lines} == {code}
    assert all(line["batch"] == batch["id"] and line["where"] for line in lines)
    assert SECRET not in json.dumps(logs) + fresh.page(f"/uploads/{receipt['id']}")
    metrics = fresh.client.get("/metrics").text
    assert f'vantage_unchecked_batches{{check="{code}"}} 1.0' in metrics
    assert f'vantage_checks_failed_total{{check="{code}"}}' in metrics


def test_the_other_checks_are_done(fresh: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fresh.place.ingest(rows(), filename="rows.jsonl", run="whole")
    swapped(findings.FINDINGS, "singleton_groups", check=boom)(monkeypatch)
    part = fresh.place.ingest(rows(), filename="rows.jsonl", run="part")
    one, other = (f"/api/v1/batches/{each['batches'][0]['id']}" for each in (whole, part))
    assert fresh.data(f"{one}/findings") == fresh.data(f"{other}/findings")
    assert fresh.data(one)["statistics"] == fresh.data(other)["statistics"]
    assert fresh.data(one)["unchecked"] == []
    assert "X-Unchecked" not in fresh.client.get(f"{one}/findings").headers
    assert "No group has a single rollout" in fresh.page(f"/uploads/{whole['id']}")
    assert "No group has a single rollout" not in fresh.page(f"/uploads/{part['id']}")


def test_every_step_of_a_file_stands(fresh: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped(findings.FINDINGS, "singleton_groups", check=boom)(monkeypatch)
    receipt = fresh.place.ingest(rows(steps=3), filename="rows.jsonl", run="r")
    assert [batch["step"] for batch in receipt["batches"]] == [0, 1, 2]
    assert "In 3 batches." in text_of(fresh.page(f"/uploads/{receipt['id']}"))
    assert 'vantage_unchecked_batches{check="singleton_groups"} 3.0' in fresh.client.get("/metrics").text


def test_a_verdict_that_comes_later_takes_the_sentence_away(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("app.reconciling.reconcile", boom)
        upload_id, _ = fresh.place.upload(rows(), "rows.jsonl", run="r")
        fresh.place.work_once()
    (batch,) = fresh.data(f"/api/v1/uploads/{upload_id}")["batches"]
    first = fresh.client.get(f"/api/v1/batches/{batch['id']}")
    assert [each["check"] for each in first.json()["unchecked"]] == ["reconciliation"]
    fresh.place.work()
    later = fresh.client.get(
        f"/api/v1/batches/{batch['id']}", headers={"If-None-Match": first.headers["ETag"]}
    )
    assert later.status_code == 200 and later.json()["unchecked"] == []


def test_a_judgement_that_raises_later_leaves_the_verdict(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reconciling.MOST_TOKENS", 1)  # so that a job of its own reconciles
    monkeypatch.setattr("app.findings.recorded_advantages_disagree.judge", boom)
    receipt = fresh.place.ingest(rows(), filename="rows.jsonl", run="r")
    address = f"/api/v1/batches/{receipt['batches'][0]['id']}"
    assert [each["check"] for each in fresh.data(address)["unchecked"]] == ["recorded_advantages_disagree"]
    (analysis,) = fresh.data(f"{address}/analyses")["items"]
    assert analysis["state"] == "succeeded"


def test_a_check_of_the_run_that_raises(fresh: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped(RUN_FINDINGS, "missing_steps", check=boom)(monkeypatch)
    fresh.place.ingest(rows(steps=3), filename="rows.jsonl", run="r")
    with capture_logs() as logs:
        said = fresh.data("/api/v1/runs/r")["unchecked"]
    title = "Steps are missing"
    assert said == [{"check": "missing_steps", "title": title, "message": f"Could not be checked: {title}."}]
    assert [line["check"] for line in logs if line["event"] == "check failed"] == ["missing_steps"]
    assert SECRET not in json.dumps(logs)
    assert f"Could not be checked: {title}." in text_of(fresh.page("/runs/r"))
    assert f"Could not be checked: {title}." in fresh.data("/runs/r.json")["unchecked"]
    assert 'vantage_checks_failed_total{check="missing_steps"}' in fresh.client.get("/metrics").text
