"""Uploads that come in pieces, over REST: begun, sent, gone on with, completed, given up, and what is
refused."""

import gzip
import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.transfers import DIGEST_BYTES, expire
from app.uploads import sweep
from tests.api.conftest import BASE, Service, refused
from tests.api.rows import ROWS, jsonl
from tests.api.test_estimating import work_soon

BODY = jsonl(ROWS)
KEY = {"Upload-Key": "of somebody who begins something"}
OTHER = {"Upload-Key": "of somebody else, who looks over"}


def begin(service: Service, *contents: bytes, **query: Any) -> str:
    """The id of a transfer of files of these contents."""
    files = [{"filename": f"dump/{n}.jsonl", "bytes": len(content)} for n, content in enumerate(contents)]
    answer = service.post("/transfers", json={"files": files}, params=query, headers=KEY)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/api/v1/transfers/{answer.json()['id']}"
    return str(answer.json()["id"])


def patch(service: Service, id: str, offset: Any, content: Any, **headers: str) -> Response:
    sent = KEY | {"Upload-Offset": str(offset)} | headers
    answer: Response = service.client.patch(f"/api/v1/transfers/{id}", content=content, headers=sent)
    return answer


def stands(service: Service, id: str) -> int:
    answer = service.client.head(f"/api/v1/transfers/{id}", headers=KEY)
    assert answer.status_code == 204
    return int(answer.headers["upload-offset"])


def complete(service: Service, id: str, **body: Any) -> Response:
    return service.post(f"/transfers/{id}/complete", headers=KEY, **({"json": body} if body else {}))


def files_of(service: Service, id: str) -> list[str]:
    return sorted(p.name for p in service.place.settings.spool_dir.iterdir() if p.name.startswith(id))


def test_a_file_in_pieces_is_the_same_upload_as_in_one(service: Service) -> None:
    id = begin(service, BODY, run="pieces")
    cut = len(BODY) // 3
    first = patch(service, id, 0, BODY[:cut])
    assert (first.status_code, first.headers["upload-offset"]) == (204, str(cut))
    assert first.headers["upload-length"] == str(len(BODY))
    assert stands(service, id) == cut
    assert patch(service, id, cut, BODY[cut:]).status_code == 204
    done = complete(service, id, sha256=hashlib.sha256(BODY).hexdigest())
    assert done.status_code == 202, done.text
    service.work()
    receipt = service.get(f"/uploads/{done.json()['id']}")
    assert (receipt["state"], receipt["format"]) == ("succeeded", "canonical-jsonl")
    assert (receipt["bytes"], receipt["sha256"]) == (len(BODY), hashlib.sha256(BODY).hexdigest())
    assert receipt["counts"] == {"rows": 12, "accepted": 12, "rejected": 0}
    plain = service.post("/uploads", content=BODY, params={"run": "pieces"})
    assert (plain.status_code, plain.json()["id"]) == (200, receipt["id"]), "the same upload as the plain one"


def test_several_files_are_one_stream_and_one_upload(service: Service) -> None:
    parts = [jsonl(ROWS[:6]), b"", jsonl(ROWS[6:])]
    whole = b"".join(parts)
    id = begin(service, *parts, run="several")
    for start in range(0, len(whole), 700):  # over the borders of the files
        assert patch(service, id, start, whole[start : start + 700]).status_code == 204
    done = complete(service, id, sha256=hashlib.sha256(whole).hexdigest())
    assert done.status_code == 202, done.text
    receipt = done.json()
    assert [file["filename"] for file in receipt["files"]] == [f"dump/{n}.jsonl" for n in range(3)]
    assert [file["sha256"] for file in receipt["files"]] == [hashlib.sha256(p).hexdigest() for p in parts]
    form = [("file", (f"dump/{n}.jsonl", part)) for n, part in enumerate(parts)]
    plain = service.post("/uploads", files=form, params={"run": "several"})
    assert plain.json()["id"] == receipt["id"], "the same upload as the form's"
    service.work()
    assert service.get(f"/uploads/{receipt['id']}")["counts"]["accepted"] == 12


def test_a_compressed_file_comes_as_it_is(service: Service) -> None:
    packed = gzip.compress(BODY)
    files = [{"filename": "rows.jsonl", "bytes": len(packed), "encoding": "gzip"}]
    id = service.post("/transfers", json={"files": files}, headers=KEY).json()["id"]
    refused(patch(service, id, 0, packed, **{"Content-Encoding": "gzip"}), 400, "Content-Encoding")
    assert patch(service, id, 0, packed).status_code == 204
    upload = complete(service, id).json()["id"]
    service.work()
    assert service.get(f"/uploads/{upload}")["counts"]["accepted"] == 12


def test_completing_twice_is_one_upload_and_waiting_gives_its_end(service: Service) -> None:
    id = begin(service, BODY)
    patch(service, id, 0, BODY)
    worker = threading.Thread(target=work_soon, args=(service,))
    worker.start()
    first = service.post(f"/transfers/{id}/complete", headers=KEY, params={"wait": 30})
    worker.join()
    assert (first.status_code, first.json()["state"]) == (201, "succeeded")
    assert complete(service, id).json()["id"] == first.json()["id"]
    told = service.get(f"/transfers/{id}", headers=KEY)
    assert (told["upload"], told["offset"], told["expires"]) == (first.json()["id"], len(BODY), None)
    refused(patch(service, id, len(BODY), b""), 409, first.json()["id"])
    assert service.client.delete(f"/api/v1/transfers/{id}", headers=KEY).status_code == 409
    assert service.get("/batches")["total"] == 1


def test_a_key_makes_one_transfer(service: Service) -> None:
    body = {"files": [{"filename": "a", "bytes": 3}]}
    headers = KEY | {"Idempotency-Key": "begin once"}
    first, again = (service.post("/transfers", json=body, headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"


def test_the_same_bytes_as_an_earlier_upload_leave_no_files(service: Service) -> None:
    plain = service.post("/uploads", content=BODY, params={"run": "r"}).json()["id"]
    id = begin(service, BODY, run="r")
    patch(service, id, 0, BODY)
    assert complete(service, id).json()["id"] == plain
    assert files_of(service, id) == [f"{id}.lock"], "the bytes are gone"
    service.work()
    assert service.get(f"/uploads/{plain}")["state"] == "succeeded"


def test_a_piece_elsewhere_is_refused_with_the_place_where_it_stands(service: Service) -> None:
    id = begin(service, BODY)
    patch(service, id, 0, BODY[:100])
    for offset in (0, 99, 101, len(BODY), len(BODY) + 1):
        body = refused(patch(service, id, offset, BODY[:10]), 409, "Upload-Offset 100")
        assert body["offset"] == 100
    assert stands(service, id) == 100
    assert refused(complete(service, id), 409, "Send the rest first")["offset"] == 100


def chunked(content: bytes) -> Iterator[bytes]:
    """A body without Content-Length."""
    for start in range(0, len(content), 64):
        yield content[start : start + 64]


@pytest.mark.parametrize("wrapped", [bytes, chunked], ids=["announced", "chunked"])
def test_more_bytes_than_were_announced_are_refused(
    service: Service, wrapped: Callable[[bytes], Any]
) -> None:
    id = begin(service, BODY)
    refused(patch(service, id, 0, wrapped(BODY + b"x")), 413, "more than are missing")
    here = stands(service, id)
    assert here <= len(BODY)
    assert patch(service, id, here, BODY[here:]).status_code == 204
    assert complete(service, id, sha256=hashlib.sha256(BODY).hexdigest()).status_code == 202


def test_a_digest_that_differs_is_refused_and_nothing_is_made(service: Service) -> None:
    id = begin(service, BODY)
    patch(service, id, 0, BODY)
    refused(complete(service, id, sha256="0" * 64), 422, "SHA-256", "DELETE")
    refused(complete(service, id, sha256="no digest"), 422, "sha256")
    assert service.get("/jobs")["total"] == 0
    assert service.client.delete(f"/api/v1/transfers/{id}", headers=KEY).status_code == 204
    assert files_of(service, id) == []


def test_nobody_else_sees_or_touches_it(service: Service) -> None:
    id = begin(service, BODY)
    patch(service, id, 0, BODY)
    path = f"/api/v1/transfers/{id}"
    unknown = f"/api/v1/transfers/{'0' * 16}"
    asked: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "", {}), ("PATCH", "", {"Upload-Offset": "0"}), ("DELETE", "", {}),
        ("GET", "/digests", {}), ("POST", "/complete", {}),
    ]  # fmt: skip
    for method, below, headers in asked:
        theirs = service.client.request(method, path + below, headers=OTHER | headers)
        nobodys = service.client.request(method, unknown + below, headers=KEY | headers)
        assert refused(theirs, 404, "Upload-Key") == refused(nobodys, 404), "an oracle for ids"
        none = service.client.request(method, path + below, headers=headers)
        refused(none, 422, "Upload-Key")
    assert service.client.head(path, headers=OTHER).status_code == 404
    assert stands(service, id) == len(BODY)
    for row in service.place.settings.data_dir.rglob("*.db*"):
        assert KEY["Upload-Key"].encode() not in row.read_bytes(), "only the key's hash is kept"


@pytest.mark.parametrize("offset", ["", "-1", "1.5", "nan", "0x10", "٣", "9" * 40, "0, 0"])
def test_nonsense_offsets_are_refused(service: Service, offset: str) -> None:
    id = begin(service, BODY)
    sent = [(name.encode(), value.encode()) for name, value in (KEY | {"Upload-Offset": offset}).items()]
    refused(service.client.patch(f"/api/v1/transfers/{id}", content=b"x", headers=sent), 422, "Upload-Offset")
    none = service.client.patch(f"/api/v1/transfers/{id}", content=b"x", headers=KEY)
    refused(none, 422, "Upload-Offset")
    assert stands(service, id) == 0


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "files"),
        ({"files": []}, "files"),
        ({"files": [{"filename": "a"}]}, "bytes"),
        ({"files": [{"filename": "a", "bytes": -1}]}, "bytes"),
        ({"files": [{"filename": "a", "bytes": "12"}]}, "bytes"),
        ({"files": [{"filename": "a", "bytes": 1.5}]}, "bytes"),
        ({"files": [{"filename": "a", "bytes": 2**60}]}, "bytes"),
        ({"files": [{"filename": "a", "bytes": 1, "encoding": "br"}]}, "encoding"),
        ({"files": [{"filename": "a", "bytes": 1, "spool": "../x"}]}, "spool"),
        ({"files": [{"filename": "a", "bytes": 1}] * 10_001}, "files"),
    ],
)
def test_what_cannot_be_begun(service: Service, body: dict[str, Any], word: str) -> None:
    refused(service.post("/transfers", json=body, headers=KEY), 422, word)
    assert list(service.place.settings.spool_dir.iterdir()) == []


def test_options_are_checked_before_a_byte_is_sent(service: Service) -> None:
    body = {"files": [{"filename": "a", "bytes": 1}]}
    for query, word in (({"format": "nonsense"}, "format"), ({"tokenizer": "none-such"}, "tokenizer"),
                        ({"filename": "b"}, "filename"), ({"column.nonsense": "x"}, "nonsense")):  # fmt: skip
        refused(service.post("/transfers", json=body, headers=KEY, params=query), 422, word)
    for key in ("", "short", "x" * 256):
        refused(service.post("/transfers", json=body, headers={"Upload-Key": key}), 422, "Upload-Key")


def test_an_upload_has_one_limit_however_it_comes(tmp_path: Path, data_template: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", max_upload_bytes=10)
    headers = KEY | {"Upload-Offset": "0"}
    with TestClient(create_app(settings), base_url=BASE) as client:
        files = [{"filename": name, "bytes": 6} for name in "ab"]
        refused(client.post("/api/v1/transfers", json={"files": files}, headers=KEY),
                413, "12 bytes", "VANTAGE_MAX_UPLOAD_BYTES")  # fmt: skip
        made = client.post("/api/v1/transfers", json={"files": files[:1]}, headers=KEY).json()["id"]
        answer = client.patch(f"/api/v1/transfers/{made}", content=b"x" * 11, headers=headers)
        refused(answer, 413, "VANTAGE_MAX_UPLOAD_BYTES")
        long = {"files": [{"filename": "x" * 4000, "bytes": 0}] * 1100}
        refused(client.post("/api/v1/transfers", json=long, headers=KEY), 413, "zip")
    with TestClient(
        create_app(Settings(data_dir=tmp_path / "data", max_upload_bytes=2**62)), base_url=BASE
    ) as client:
        huge = {"files": [{"filename": "a", "bytes": 2**53 - 1}]}
        refused(client.post("/api/v1/transfers", json=huge, headers=KEY), 503, "room")


def test_digests_tell_whether_a_file_is_the_one_that_was_begun(service: Service) -> None:
    parts = [b"a" * (DIGEST_BYTES + 5), b"b" * 100]
    whole = b"".join(parts)
    id = begin(service, *parts)
    here = whole[:-10]
    patch(service, id, 0, here)
    told = service.get(f"/transfers/{id}/digests", headers=KEY)
    blocks = [here[start : start + DIGEST_BYTES] for start in range(0, len(here), DIGEST_BYTES)]
    assert told["sha256"] == [hashlib.sha256(block).hexdigest() for block in blocks]
    assert (told["offset"], told["step"], told["next"]) == (len(here), DIGEST_BYTES, None)
    later = service.get(f"/transfers/{id}/digests", headers=KEY, params={"start": DIGEST_BYTES})
    assert later["sha256"] == told["sha256"][1:]
    beyond = service.get(f"/transfers/{id}/digests", headers=KEY, params={"start": 2**40})
    assert beyond["sha256"] == []


def test_what_is_left_lying_is_deleted_after_its_time_and_what_goes_on_is_kept(service: Service) -> None:
    place = service.place
    id = begin(service, BODY)
    patch(service, id, 0, BODY[:100])
    told = service.get(f"/transfers/{id}", headers=KEY)
    before, after = told["expires"] - 60, told["expires"] + 60
    assert expire(place.engine, place.settings, before) == 0
    assert sweep(place.engine, place.settings, before) == 0
    assert stands(service, id) == 100
    assert expire(place.engine, place.settings, after) == 1
    assert files_of(service, id) == []
    refused(service.client.get(f"/api/v1/transfers/{id}", headers=KEY), 404, "VANTAGE_TRANSFER_HOURS")


def test_what_was_completed_stays_as_long_as_any_upload(service: Service) -> None:
    place = service.place
    id = begin(service, BODY)
    patch(service, id, 0, BODY)
    upload = complete(service, id).json()["id"]
    assert expire(place.engine, place.settings, 2e9) == 0
    sweep(place.engine, place.settings, 2e9)
    assert files_of(service, id) == [f"{id}.0"], "it is not read yet"
    service.work()
    assert service.get(f"/uploads/{upload}")["state"] == "succeeded"
