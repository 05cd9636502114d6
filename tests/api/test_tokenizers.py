"""Tokenizers over REST, and uploads that are decoded with them."""

import json
from typing import Any

from tests.api.conftest import Service, refused
from tests.ingest.reading import SAMPLES

TOY = (SAMPLES / "tokenizer" / "tokenizer.json").read_bytes()


def ids_only(**columns: Any) -> bytes:
    """The canonical sample without its token texts."""
    lines = (SAMPLES / "canonical" / "batch.jsonl").read_text().splitlines()[1:]
    rows = [{k: v for k, v in json.loads(line).items() if k != "response_tokens"} for line in lines]
    return b"".join(json.dumps(row | columns).encode() + b"\n" for row in rows)


def put(service: Service, name: str = "toy", content: bytes = TOY, status: int = 201) -> Any:
    answer = service.client.put(f"/api/v1/tokenizers/{name}", content=content)
    assert answer.status_code == status, answer.text
    return answer.json()


def fields_of(service: Service, receipt: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = service.get(f"/batches/{receipt['batches'][0]['id']}")["fields"]
    return found


def test_a_tokenizer_is_stored_listed_replaced_and_deleted(service: Service) -> None:
    made = put(service)
    assert (made["model"], made["decoder"], made["vocabulary"], made["bytes"]) == (
        "BPE", "ByteLevel", 463, len(TOY),
    )  # fmt: skip
    assert put(service, status=200)["sha256"] == made["sha256"]
    listed = service.get("/tokenizers")
    assert (listed["total"], listed["items"][0]["name"]) == (1, "toy")
    assert service.get("/tokenizers/toy")["special_tokens"] == 3
    assert service.client.delete("/api/v1/tokenizers/toy").status_code == 204
    refused(service.client.get("/api/v1/tokenizers/toy"), 404, "no tokenizer", "toy")
    refused(service.client.delete("/api/v1/tokenizers/toy"), 404)


def test_what_cannot_be_a_tokenizer_is_refused(refusing: Service) -> None:
    def sent(name: str, content: bytes) -> Any:
        return refusing.client.put(f"/api/v1/tokenizers/{name}", content=content)

    refused(sent("toy", b"{}"), 422, "tokenizer.json", '"model"')
    refused(sent("toy", b"\x80\x04"), 422, "no JSON")
    refused(sent("none", TOY), 422, "name")
    refused(sent("a%20b", TOY), 422, "name")
    limit = refusing.place.settings.max_tokenizer_bytes
    too_large = refusing.client.put(
        "/api/v1/tokenizers/toy", content=b"{}", headers={"Content-Length": str(limit + 1)}
    )
    refused(too_large, 413, "VANTAGE_MAX_TOKENIZER_BYTES")


def test_ids_are_decoded_and_the_run_remembers_with_what(service: Service) -> None:
    put(service)
    receipt = service.upload(ids_only(), run="r", tokenizer="toy")
    assert fields_of(service, receipt)["response_tokens"] == "derived:tokenizer:toy"
    rollout = service.get(f"/batches/{receipt['batches'][0]['id']}/rollouts/0")
    assert "".join(rollout["response_tokens"]) == rollout["response"]
    assert "tokens_decoded" in receipt["problem_counts"]
    assert service.get("/tokenizers/toy")["runs"] == ["r"]
    later = service.upload(ids_only(step=5), run="r")
    assert fields_of(service, later)["response_tokens"] == "derived:tokenizer:toy"
    assert any("which the run remembers" in problem["message"] for problem in later["problems"])
    without = service.upload(ids_only(step=6), run="r", tokenizer="none")
    assert fields_of(service, without)["response_tokens"] == "absent"
    other = service.upload(ids_only(step=7), run="another")
    assert fields_of(service, other)["response_tokens"] == "absent"


def test_a_tokenizer_that_does_not_match_changes_nothing(service: Service) -> None:
    put(service)
    receipt = service.upload(ids_only(response="What the ids do not say"), run="r", tokenizer="toy")
    assert fields_of(service, receipt)["response_tokens"] == "absent"
    assert receipt["problem_counts"]["wrong_tokenizer"] == 1
    assert service.get("/tokenizers/toy")["runs"] == []


def test_an_unknown_tokenizer_is_refused_before_anything_is_kept(service: Service) -> None:
    answer = service.post("/uploads", content=ids_only(), params={"tokenizer": "nobody"})
    refused(answer, 422, "no tokenizer 'nobody'", "PUT /api/v1/tokenizers")
    assert not list(service.place.settings.spool_dir.iterdir())


def test_a_tokenizer_replaced_in_between_fails_the_upload_with_a_sentence(service: Service) -> None:
    put(service)
    answer = service.post("/uploads", content=ids_only(), params={"tokenizer": "toy"})
    put(service, content=TOY + b"\n", status=200)
    service.work()
    failed = service.get(f"/uploads/{answer.json()['id']}")
    assert failed["state"] == "failed"
    assert "replaced or deleted" in failed["error"]


def test_the_same_bytes_are_read_again_with_a_tokenizer(service: Service) -> None:
    first = service.upload(ids_only(), run="r")
    put(service)
    second = service.upload(ids_only(), run="r", tokenizer="toy")
    assert second["id"] != first["id"] and second["duplicate_of"] is None
    again = service.post("/uploads", content=ids_only(), params={"run": "r", "tokenizer": "toy"})
    assert (again.status_code, again.json()["id"]) == (200, second["id"])
