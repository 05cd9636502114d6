"""Deleting deletes: rows, receipt, columns, file and empty run; the disk gets its space back."""

import pytest

from app.errors import AppError
from app.storing import RunDeleted, require_batches
from app.uploads import sweep
from storage.database import write
from storage.models import Run
from tests.api.conftest import Service
from tests.api.rows import ROWS, jsonl


def spool(service: Service) -> list[str]:
    return [path.name for path in service.place.settings.spool_dir.iterdir()]


@pytest.mark.parametrize("what", ["run", "batch"])
def test_file_receipt_and_run_go_with_the_last_batch(service: Service, what: str) -> None:
    receipt = service.upload(run="secret")
    assert spool(service)
    batch = receipt["batches"][0]["id"]
    path = "/runs/secret" if what == "run" else f"/batches/{batch}"
    assert service.client.delete(f"/api/v1{path}").status_code == 204
    assert spool(service) == []
    service.get(f"/uploads/{receipt['id']}", 404)
    service.get(f"/uploads/{receipt['id']}/columns", 404)
    assert service.post(f"/uploads/{receipt['id']}/again", json={}).status_code == 404
    service.get("/runs/secret", 404)
    assert service.get("/runs")["items"] == []
    again = service.upload(run="secret")
    assert again["counts"]["accepted"] == 12, "the same file can be sent again"


def test_what_other_batches_came_from_stays(service: Service) -> None:
    rows = jsonl([{**row, "step": step} for step in (1, 2) for row in ROWS])
    receipt = service.upload(rows, run="two")
    first, second = (batch["id"] for batch in receipt["batches"])
    assert service.client.delete(f"/api/v1/batches/{first}").status_code == 204
    assert len(spool(service)) == 1
    assert service.get(f"/uploads/{receipt['id']}")["id"] == receipt["id"]
    assert service.get("/runs/two")["batches"] == 1
    assert service.client.delete(f"/api/v1/batches/{second}").status_code == 204
    assert spool(service) == []


def test_the_database_file_shrinks(service: Service) -> None:
    rows = [{**row, "response": f"{n} " + "word " * 4000, "step": 1} for n in range(40) for row in ROWS]
    service.upload(jsonl(rows), run="large", duplicates="keep")
    path = service.place.settings.data_dir / "vantage.db"
    before = path.stat().st_size
    assert service.client.delete("/api/v1/runs/large").status_code == 204
    assert path.stat().st_size < before / 2


def test_a_run_deleted_while_it_is_read_in_is_said(service: Service) -> None:
    receipt = service.upload(run="kept")
    with write(service.place.engine) as session:
        require_batches(session, {receipt["batches"][0]["id"]})
        with pytest.raises(RunDeleted, match="deleted while the file was read in"):
            require_batches(session, {"gone"})
    assert issubclass(RunDeleted, AppError)


def test_empty_runs_of_long_ago_are_swept(service: Service) -> None:
    service.upload(run="kept")
    with write(service.place.engine) as session:
        session.add(Run(id="0" * 32, name="empty", created=0.0))
    sweep(service.place.engine, service.place.settings)
    assert [run["name"] for run in service.get("/runs")["items"]] == ["kept"]


def test_head_is_answered_as_get_is_without_a_body(service: Service) -> None:
    batch = service.upload(run="head")["batches"][0]["id"]
    for path in ("/", "/runs/head", f"/batches/{batch}", "/api/v1/runs", f"/api/v1/batches/{batch}/rows"):
        got, head = service.client.get(path), service.client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
    assert service.client.head("/s/unknown").status_code == 404


def test_if_match_takes_a_list(service: Service) -> None:
    made = service.post("/dashboards", json={"title": "one"})
    path, tag = f"/api/v1/dashboards/{made.json()['id']}", made.headers["etag"]
    other = 'W/"0123456789"'
    changed = service.client.patch(path, json={"title": "two"}, headers={"If-Match": f"{other}, {tag}"})
    assert changed.status_code == 200
    late = service.client.patch(path, json={"title": "three"}, headers={"If-Match": f"{other}, {tag}"})
    assert late.status_code == 412
