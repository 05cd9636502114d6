"""Every framework's sample, sent as a browser sends a folder: receipt, batches, rows and pages are there."""

from typing import Any

import pytest

from tests.api.conftest import Service
from tests.ingest.reading import SAMPLES
from tests.ingest.test_formats import SAMPLE_ROWS


def send(service: Service, name: str) -> dict[str, Any]:
    """The receipt of a sample's folder (or file)."""
    paths = sorted(path for path in (SAMPLES / name).rglob("*") if path.is_file()) or [SAMPLES / name]
    files = [("file", (str(path.relative_to(SAMPLES)), path.read_bytes())) for path in paths]
    answer = service.post("/uploads", files=files)
    assert answer.status_code == 202, answer.text
    service.work()
    receipt: dict[str, Any] = service.get(f"/uploads/{answer.json()['id']}")
    return receipt


@pytest.mark.parametrize("name", SAMPLE_ROWS)
def test_a_sample_arrives_whole_and_its_pages_open(name: str, service: Service) -> None:
    format, rows, _, places, tokens, rejected = SAMPLE_ROWS[name]
    receipt = send(service, name)
    assert receipt["state"] == "succeeded", receipt
    assert receipt["format"] == format
    assert receipt["counts"] == {"rows": rows + rejected, "accepted": rows, "rejected": rejected}
    assert {(batch["step"], batch["split"]) for batch in receipt["batches"]} == set(places)
    assert sum(batch["tokens"] for batch in receipt["batches"]) == (tokens or 0)
    for batch in receipt["batches"]:
        service.get(f"/batches/{batch['id']}/rollouts/0")
        for path in ("", "/groups/0", "/rollouts/0", "/whitening"):
            answer = service.client.get(f"/batches/{batch['id']}{path}", headers={"Accept": "text/html"})
            assert answer.status_code == 200, (path, answer.text[-2000:])


def test_files_of_one_step_are_joined_and_the_receipt_says_so(service: Service) -> None:
    receipt = send(service, "prime_rl")
    assert receipt["counts"] == {"rows": 25, "accepted": 24, "rejected": 1}
    joined = next(problem for problem in receipt["problems"] if problem["code"] == "joined")
    assert joined["message"].startswith("24 of 24 rows")
    (batch,) = receipt["batches"]
    fields = service.get(f"/batches/{batch['id']}")["fields"]
    assert {fields[name] for name in ("old_log_probs", "advantages", "group_id", "rank")} == {"recorded"}
    assert fields["reward"] == "derived:sum(score x weight)"
    rollout = service.get(f"/batches/{batch['id']}/rollouts/0")
    assert len(rollout["old_log_probs"]) == len(rollout["response_ids"]) == 13


def test_samples_are_there_for_every_row() -> None:
    assert all((SAMPLES / name).exists() for name in SAMPLE_ROWS)


def test_what_is_absent_is_named_with_the_setting_that_would_record_it(service: Service) -> None:
    (batch,) = send(service, "prime_rl/token_exports")["batches"]
    page = service.client.get(f"/batches/{batch['id']}", headers={"Accept": "text/html"}).text
    assert "send rollouts/step_{s}/train/all/traces.jsonl with it" in page
