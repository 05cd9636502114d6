"""Files in over REST: every way to send one, what is said of it, and what is refused."""

import gzip
import hashlib
import io
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import BASE, Service, refused
from tests.api.rows import ROWS, jsonl
from tests.api.test_estimating import work_soon

BODY = jsonl(ROWS)


def spooled(service: Service) -> int:
    return len(list(service.place.settings.spool_dir.iterdir()))


def test_a_raw_body_is_accepted_and_read(service: Service) -> None:
    answer = service.post("/uploads", content=BODY, params={"filename": "dump/rows.jsonl"})
    receipt = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/uploads/{receipt['id']}"
    assert (receipt["state"], receipt["bytes"]) == ("queued", len(BODY))
    assert receipt["sha256"] == hashlib.sha256(BODY).hexdigest()
    service.work()
    done = service.client.get(answer.headers["location"]).json()
    assert done["state"] == "succeeded"
    assert done["format"] == "canonical-jsonl"
    assert done["counts"] == {"rows": 12, "accepted": 12, "rejected": 0}
    batch = done["batches"][0]
    assert (batch["run"], batch["step"], batch["split"]) == ("rows", 7, "train")
    assert (batch["rollouts"], batch["groups"]) == (12, 3)


def test_waiting_gives_201_and_the_same_bytes_again_200(service: Service) -> None:
    worker = threading.Thread(target=work_soon, args=(service,))
    worker.start()
    first = service.post("/uploads", content=BODY, params={"run": "r", "wait": 30})
    worker.join()
    assert (first.status_code, first.json()["state"]) == (201, "succeeded")
    again = service.post("/uploads", content=BODY, params={"run": "r"})
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert service.get("/batches")["total"] == 1
    assert spooled(service) == 1


def test_the_same_bytes_under_another_name_to_the_same_run_are_the_same_batch(service: Service) -> None:
    rows = jsonl(ROWS, {"run": "theirs"})
    first = service.upload(rows)
    worker = threading.Thread(target=work_soon, args=(service,))
    worker.start()
    other = service.post("/uploads", content=rows, params={"filename": "copy.jsonl", "wait": 30})
    worker.join()
    assert other.status_code == 200
    assert (other.json()["duplicate_of"], other.json()["batches"]) == (first["id"], first["batches"])
    assert service.get("/batches")["total"] == 1


@pytest.mark.parametrize(
    ("encoding", "content"),
    [("gzip", gzip.compress(BODY)), ("zstd", zstandard.compress(BODY)), ("identity", BODY)],
)
def test_content_encodings(service: Service, encoding: str, content: bytes) -> None:
    answer = service.post("/uploads", content=content, headers={"Content-Encoding": encoding})
    service.work()
    assert service.get(f"/uploads/{answer.json()['id']}")["counts"]["accepted"] == 12


def test_several_files_of_a_form_are_one_upload(service: Service) -> None:
    files = [("file", (f"steps/{i}.jsonl", jsonl([dict(row, step=i) for row in ROWS]))) for i in (1, 2)]
    answer = service.post("/uploads", files=files, data={"run": "folder"})
    assert answer.status_code == 202
    service.work()
    receipt = service.get(f"/uploads/{answer.json()['id']}")
    assert [file["filename"] for file in receipt["files"]] == ["steps/1.jsonl", "steps/2.jsonl"]
    assert [(batch["run"], batch["step"]) for batch in receipt["batches"]] == [("folder", 1), ("folder", 2)]


def test_a_zip_is_one_upload(service: Service) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.jsonl", BODY)
    assert service.upload(packed.getvalue())["counts"]["accepted"] == 12


def test_options_stand_above_the_file_and_the_address_above_the_form(service: Service) -> None:
    answer = service.post(
        "/uploads",
        params={"step": 3, "split": "val", "group_by": "stride:4"},
        data={"run": "named", "step": "9", "split": ""},
        files={"file": ("x.jsonl", BODY)},
    )
    service.work()
    receipt = service.get(f"/uploads/{answer.json()['id']}")
    batch = receipt["batches"][0]
    assert (batch["run"], batch["step"], batch["split"]) == ("named", 3, "val")
    shown = service.get(f"/batches/{batch['id']}")
    assert shown["fields"]["group_id"] == "derived:stride:4"


def test_the_name_may_be_a_header(service: Service) -> None:
    answer = service.post("/uploads", content=BODY, headers={b"X-Filename": "größe.jsonl".encode()})
    assert answer.json()["filename"] == "größe.jsonl"


def test_rejected_rows_are_listed_and_the_others_stand(service: Service) -> None:
    receipt = service.upload(BODY + b'{"step": 7, "group_id": "x", "respo')
    assert receipt["counts"] == {"rows": 13, "accepted": 12, "rejected": 1}
    assert receipt["problems"][0]["row"] == 13 and receipt["problems"][0]["severity"] == "error"
    few = service.get(f"/uploads/{receipt['id']}", params={"problems": 0})
    assert few["problems"] == [] and sum(few["problem_counts"].values()) == len(receipt["problems"])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"\n\n\n", "row"),
        (b"<!doctype html><title>403 Forbidden</title>", "html"),
        (b"\x80\x04\x95\x00.", "pickle"),
        (b"once upon a time\n", "row"),
    ],
)
def test_a_file_with_nothing_to_read_is_422_with_the_receipt(
    service: Service, content: bytes, word: str
) -> None:
    worker = threading.Thread(target=work_soon, args=(service,))
    worker.start()
    answer = service.post("/uploads", content=content, params={"wait": 30})
    worker.join()
    body = refused(answer, 422)
    assert (body["state"], body["batches"], body["counts"]["accepted"]) == ("failed", [], 0)
    assert word in json.dumps(body).lower()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"format": "nothing"}, ["no format", "auto"]),
        ({"step": "seven"}, ["step"]),
        ({"step": "1e30"}, ["step"]),
        ({"step": str(2**63)}, ["step"]),
        ({"run": "x" * 256}, ["run"]),
        ({"run": "a\nb"}, ["run", "printed"]),
        ({"split": "x" * 65}, ["split"]),
        ({"wait": "61"}, ["wait"]),
        ({"wait": "nan"}, ["wait"]),
        ({"colour": "red"}, ["colour"]),
        ({"tokenizer": "x" * 65}, ["tokenizer"]),
        ({"column.rewrd": "score"}, ["column.rewrd", "reward_components"]),
        ({"column.reward": "x" * 1001}, ["column"]),
        ({"decimal": "dot"}, ["decimal"]),
    ],
)
def test_options_that_cannot_be_are_refused_and_leave_no_file(
    refusing: Service, query: dict[str, str], words: list[str]
) -> None:
    refused(refusing.post("/uploads", content=BODY, params=query), 422, *words)
    assert spooled(refusing) == 0


@pytest.mark.parametrize(
    "query", [{"group_by": "stride:0"}, {"group_by": "stride:x"}, {"duplicates": "merge"}]
)
def test_rules_that_cannot_be_are_refused(refusing: Service, query: dict[str, str]) -> None:
    refused(refusing.post("/uploads", content=BODY, params=query), 400, next(iter(query)))
    assert spooled(refusing) == 0


def form(parts: bytes, boundary: str = "b") -> dict[str, Any]:
    return {"content": parts, "headers": {"Content-Type": f"multipart/form-data; boundary={boundary}"}}


PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + BODY

COMPRESSED_FORM = {
    "content": PART,
    "headers": {"Content-Type": "multipart/form-data; boundary=b", "Content-Encoding": "gzip"},
}

#: What a browser sends for a file input in which nothing was chosen.
EMPTY_INPUT = b'--b\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (form(PART), 400, ["last boundary"]),
        (form(b"nonsense"), 400, ["multipart"]),
        (form(PART, "b" * 400), 400, ["boundary"]),
        ({"content": PART, "headers": {"Content-Type": "multipart/form-data"}}, 400, ["boundary"]),
        (form(b"--b\r\nX: y\r\n\r\nz\r\n--b--\r\n"), 400, ["no name"]),
        ({"files": {"other": ("a.jsonl", BODY)}}, 422, ["'other'", "'file'"]),
        ({"files": {"file": ("a", BODY)}, "data": {"colour": "red"}}, 422, ["colour"]),
        ({"files": {"file": ("a", BODY)}, "data": {"step": "soon"}}, 422, ["step"]),
        ({"files": {"file": ("a", BODY)}, "data": {"run": "x" * 5000}}, 422, ["run", "longer"]),
        ({"files": {"file": ("a", BODY)}, "data": {f"f{i}": "x" for i in range(40)}}, 422, ["text fields"]),
        (form(EMPTY_INPUT), 400, ["no file"]),
        ({"content": BODY, "headers": {"Content-Encoding": "br"}}, 400, ["gzip or zstd"]),
        (COMPRESSED_FORM, 400, ["form"]),
        ({"content": BODY, "headers": {"Idempotency-Key": "x" * 256}}, 400, ["idempotency-key"]),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_are_refused_and_leave_no_file(
    refusing: Service, sent: dict[str, Any], status: int, words: list[str]
) -> None:
    refused(refusing.post("/uploads", **sent), status, *words)
    assert spooled(refusing) == 0


def test_the_size_limit_is_named(tmp_path: Path, data_template: Path) -> None:
    settings = Settings(data_dir=tmp_path, max_upload_bytes=1000)
    with TestClient(create_app(settings), base_url=BASE) as client:
        path = "/api/v1/uploads"
        refused(client.post(path, content=b"x" * 2_000_000), 413, "1000 bytes", "VANTAGE_MAX_UPLOAD_BYTES")
        refused(client.post(path, content=b"x" * 1001), 413, "VANTAGE_MAX_UPLOAD_BYTES")
        # Without a length beforehand, and as a form.
        refused(client.post(path, content=iter([b"x" * 600] * 2)), 413, "VANTAGE_MAX_UPLOAD_BYTES")
        refused(client.post(path, files={"file": ("a", b"x" * 1001)}), 413, "VANTAGE_MAX_UPLOAD_BYTES")
        assert list(settings.spool_dir.iterdir()) == []
        assert client.post(path, content=b"x" * 1000).status_code == 202


def test_cancelling(service: Service) -> None:
    made = service.post("/uploads", content=BODY).json()
    answer = service.client.delete(f"/api/v1/uploads/{made['id']}")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    service.work()
    assert service.get("/batches")["total"] == 0
    assert service.client.delete(f"/api/v1/uploads/{made['id']}").status_code == 200
    # What was cancelled may be sent again.
    assert service.upload(BODY)["id"] != made["id"]


def test_a_finished_upload_cannot_be_cancelled(service: Service) -> None:
    receipt = service.upload()
    refused(service.client.delete(f"/api/v1/uploads/{receipt['id']}"), 409, "DELETE /api/v1/batches")


def test_events_end_with_the_state(service: Service) -> None:
    receipt = service.upload()
    answer = service.client.get(f"/api/v1/uploads/{receipt['id']}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in answer.headers
    event, data = answer.text.strip().splitlines()
    assert event == "event: progress"
    progress = json.loads(data.removeprefix("data: "))
    assert (progress["state"], progress["rows"], progress["bytes"]) == ("succeeded", 12, receipt["bytes"])


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_upload_that_is_not_there(refusing: Service, method: str) -> None:
    refused(refusing.client.request(method, "/api/v1/uploads/nothing"), 404, "no upload")
    refused(refusing.client.get("/api/v1/uploads/nothing/events"), 404, "no upload")


def test_a_key_gives_the_same_upload_and_refuses_another_body(service: Service) -> None:
    key = {"Idempotency-Key": "step-7"}
    first = service.post("/uploads", content=BODY, headers=key)
    again = service.post("/uploads", content=BODY, headers=key, params={"wait": "0.01"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    refused(service.post("/uploads", content=BODY + b"\n", headers=key), 422, "another request")
    refused(service.post("/uploads", content=BODY, headers=key, params={"run": "x"}), 422, "another request")
    service.work()
    # Retried after the batch was made, and even deleted: nothing is made twice.
    assert service.post("/uploads", content=BODY, headers=key).status_code == 201
    batch = service.get("/batches")["items"][0]["id"]
    service.client.delete(f"/api/v1/batches/{batch}")
    refused(service.post("/uploads", content=BODY, headers=key), 404, "no upload")
    assert service.get("/batches")["total"] == 0
    assert spooled(service) == 0


def test_the_page_s_form_leads_to_the_receipt(service: Service) -> None:
    answer = service.client.post("/uploads", files={"file": ("a.jsonl", BODY)}, follow_redirects=False)
    assert answer.status_code == 303
    service.work()
    assert service.client.get(answer.headers["location"] + ".json").status_code == 200
