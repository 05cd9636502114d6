"""Jobs, workers, health, metrics."""

import time
from typing import Any

from storage import workers
from storage.database import write
from tests.api.conftest import Service, refused


def register(service: Service, name: str, **changes: Any) -> None:
    with write(service.place.engine) as session:
        worker = workers.register(session, name, "host", 7, "cpu", ["ingest", "estimate"])
        for column, value in changes.items():
            setattr(worker, column, value)


def test_jobs_of_both_kinds_newest_first(service: Service) -> None:
    receipt = service.upload()
    page = service.get("/jobs")
    kinds = [job["kind"] for job in page["items"]]
    assert sorted(kinds) == ["estimate", "estimate", "ingest"] and page["total"] == 3
    ingest = next(job for job in page["items"] if job["kind"] == "ingest")
    assert (ingest["id"], ingest["state"], ingest["unit"]) == (receipt["id"], "succeeded", "bytes")
    created = [job["created"] for job in page["items"]]
    assert created == sorted(created, reverse=True)
    service.post("/uploads", content=b"x")
    assert [job["title"] for job in service.get("/jobs", params={"state": "queued"})["items"]] == ["upload"]
    first = service.get("/jobs", params={"limit": 3})
    assert service.get("/jobs", params={"limit": 3, "cursor": first["next"]})["next"] is None


def test_a_state_that_no_job_has(service: Service) -> None:
    refused(service.client.get("/api/v1/jobs?state=lost"), 422, "no state 'lost'", "queued")


def test_workers_and_queues(service: Service) -> None:
    now = time.time()
    register(service, "a", seen=now)
    register(service, "b", seen=now - 100)
    register(service, "c", seen=now - 50, stopped=now - 50)
    register(service, "old", seen=now - 8 * 86400)
    service.post("/uploads", content=b"x")
    page = service.get("/workers")
    assert [(item["id"], item["state"]) for item in page["items"]] == [
        ("a", "alive"),
        ("c", "stopped"),
        ("b", "silent"),
    ]
    assert page["queues"] == [
        {"kind": "ingest", "queued": 1, "running": 0},
        {"kind": "estimate", "queued": 0, "running": 0},
        {"kind": "analysis", "queued": 0, "running": 0},
    ]


def test_ready_only_with_a_worker(service: Service) -> None:
    assert service.client.get("/healthz").json() == {"status": "alive"}
    waiting = service.client.get("/readyz")
    assert (waiting.status_code, waiting.json()["status"]) == (503, "not ready")
    assert "vantage worker" in waiting.json()["checks"]["worker"]
    register(service, "a")
    ready = service.client.get("/readyz")
    assert (ready.status_code, set(ready.json()["checks"].values())) == (200, {"ok"})


def test_not_ready_with_an_old_schema(service: Service) -> None:
    register(service, "a")
    with service.place.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'old'")
    answer = service.client.get("/readyz")
    assert answer.status_code == 503 and "vantage migrate" in answer.json()["checks"]["schema"]


def test_metrics_name_routes_and_never_addresses(service: Service) -> None:
    receipt = service.upload()
    service.client.get("/s/some-token-that-is-secret")
    text = service.client.get("/metrics").text
    assert 'vantage_jobs{kind="ingest",state="succeeded"} 1.0' in text
    assert "vantage_workers_alive 0.0" in text
    route = 'route="/api/v1/uploads/{upload_id}"'
    assert f'vantage_http_requests_total{{method="GET",{route},status="200"}} 1.0' in text
    assert receipt["id"] not in text and "secret" not in text


def test_deleting_a_batch_and_a_run(service: Service) -> None:
    batch = service.upload(run="mine")["batches"][0]["id"]
    other = service.upload(run="other")["batches"][0]["id"]
    estimate = service.get(f"/batches/{batch}/estimates")["items"][0]["id"]
    assert service.client.delete(f"/api/v1/batches/{batch}").status_code == 204
    refused(service.client.delete(f"/api/v1/batches/{batch}"), 404, "no batch")
    refused(service.client.get(f"/api/v1/estimates/{estimate}"), 404, "no estimate")
    assert [item["id"] for item in service.get("/batches")["items"]] == [other]
    assert service.client.delete("/api/v1/runs/other").status_code == 204
    refused(service.client.delete("/api/v1/runs/other"), 404, "no run")
    assert service.get("/batches")["total"] == 0


def test_later_steps_are_computed_anew_when_a_step_goes(service: Service) -> None:
    """Their running whitening had seen it."""
    batches = [service.upload(run="r", step=step)["batches"][0]["id"] for step in (1, 2)]
    running = {"convention": "grpo/verl", "whitening": {"scope": "running"}}
    first, second = (service.estimate(batch, **running) for batch in batches)
    assert service.client.delete(f"/api/v1/batches/{batches[0]}").status_code == 204
    assert service.get(f"/estimates/{second['id']}")["state"] == "queued"
    service.work()
    assert service.get(f"/estimates/{second['id']}")["state"] == "succeeded"
    refused(service.client.get(f"/api/v1/estimates/{first['id']}"), 404)


def test_a_run_may_have_slashes_in_its_name(service: Service) -> None:
    service.upload(run="team/a")
    assert service.get("/runs/team/a")["name"] == "team/a"
    assert service.get("/runs/team/a/steps")["total"] == 1
    figure = service.get("/runs/team/a/figures/reward_over_steps")
    assert figure["data"]
    assert service.client.delete("/api/v1/runs/team%2Fa").status_code == 204


def test_a_server_that_goes_down_ends_its_streams_and_lets_nobody_wait(service: Service) -> None:
    upload = service.post("/uploads", content=b"x").json()["id"]
    service.client.app.state.closing.set()  # type: ignore[attr-defined]
    assert service.client.get(f"/api/v1/uploads/{upload}/events").text == ""
    assert service.post("/uploads", content=b"x", params={"wait": 50}).status_code == 202
