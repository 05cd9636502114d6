"""Diagnosis cases through the real reader: their rows as canonical JSONL, uploaded and worked on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.uploads import receipt
from app.workflows import perform
from storage import batches
from storage.database import read
from tests.working import Place

CASES = Path(__file__).parent.parent / "data" / "diagnosis"
#: Names of the cases' fields that the canonical schema has under another name.
NAMES = {
    "group": "group_id",
    "tokens": "response_tokens",
    "token_rewards": "token_level_rewards",
    "logprobs": "old_log_probs",
}


def load(number: str) -> dict[str, Any]:
    (path,) = CASES.glob(f"{number}-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def canonical(row: Mapping[str, Any]) -> dict[str, Any]:
    """A case's row; a text that its tokens do not spell is the case's shorthand and is left to the tokens."""
    named = {NAMES.get(name, name): value for name, value in row.items()}
    return {name: value for name, value in named.items() if value is not None}


def findings_of_rows(
    place: Place, rows: list[dict[str, Any]], header: dict[str, Any] | None = None, **options: Any
) -> dict[str, dict[str, Any]]:
    """The findings of rows of one step, by code, as an upload stores them."""
    lines = ([{"_header": header}] if header else []) + rows
    content = "".join(
        json.dumps(line, default=lambda array: array.tolist()) + "\n" for line in lines
    ).encode()
    upload_id, _ = place.upload(content, **options)
    (kind, id, revision), *_ = place.queued()  # the estimates that follow are nobody's concern here
    perform(place.context(), kind, id, revision, place.commit)
    with read(place.engine) as session:
        said = receipt(session, upload_id)
        assert said["state"] == "succeeded", said
        (batch,) = said["batches"]
        found = batches.get(session, batch["id"])
        assert found is not None
        return {said["code"]: said for said in found.findings}
