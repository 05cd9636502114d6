"""Damaged uploads over REST: each is read by the real job, ends, and has a receipt that says how."""

from pathlib import Path

from app.workflows import perform
from tests.api.conftest import Service
from tests.ingest.fuzzing.cases import case
from tests.ingest.fuzzing.judge import SERVER

UPLOADS = 16
SEED = 7


def ingest(service: Service) -> None:
    """Do the queued job that reads the upload; what is estimated of it is for other tests."""
    for kind, id, revision in service.place.queued():
        if kind == "ingest":
            perform(service.place.context(), kind, id, revision, service.place.commit)


def test_damaged_uploads_end_with_a_receipt(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    taken = refused = 0
    for number in range(UPLOADS):
        made = case(SEED, number, folder)
        where = f"seed {SEED}, upload {number}: {made.target} ({made.how})"
        files = [("file", (name, data)) for name, data in made.files.items()]
        answer = service.post("/uploads", files=files, params={"run": f"r{number}"})
        assert answer.status_code in (200, 202, 413, 422), f"{where}: {answer.text}"
        if answer.status_code not in (200, 202):
            assert answer.json()["detail"], where
            refused += 1
            continue
        ingest(service)
        receipt = service.get(f"/uploads/{answer.json()['id']}")
        assert receipt["state"] in ("succeeded", "failed"), where
        said = [problem["message"] for problem in receipt["problems"]]
        said += [receipt["error"]] if receipt["error"] else []
        assert not [text for text in said if SERVER.search(text) or "unforeseen" in text], f"{where}: {said}"
        if receipt["state"] == "failed":
            assert receipt["error"] and not receipt["batches"], where
            refused += 1
            continue
        counts = receipt["counts"]
        assert counts["accepted"] and counts["rows"] == counts["accepted"] + counts["rejected"], where
        for batch in receipt["batches"]:
            shown = service.get(f"/batches/{batch['id']}/rollouts?limit=5")
            assert shown["total"] == batch["rollouts"], where
        taken += 1
    assert taken > UPLOADS // 4 and refused > UPLOADS // 10
