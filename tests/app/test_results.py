"""How an estimate's results are stored: step by step, each larger than the one before, none left out."""

from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import func, select

from app.estimation import request_estimate
from app.results import ROW_BYTES
from app.tasks import Work
from app.workflows import perform
from storage.database import read
from storage.models import EstimateRollout
from tests.working import Place, installation

GROUPS, SIZE = 12, 2


def rows() -> bytes:
    found = [
        {"group_id": f"g{group}", "prompt": f"p{group}", "response": "r", "reward": float(member)}
        for group in range(GROUPS)
        for member in range(SIZE)
    ]
    return b"".join(orjson.dumps(row) + b"\n" for row in found)


def steps(place: Place, plan: dict[str, Any] | None = None) -> list[int]:
    """Up to which rollout each transaction stored. `plan`: what the engine recorded of an earlier attempt."""
    batch = place.ingest(rows())["batches"][0]["id"]
    body = {"convention": "grpo/verl", "params": {"epsilon": 1e-5}}
    estimate, _ = request_estimate(place.engine, place.jobs, batch, body)
    said: list[Any] = []

    def commit(work: Work) -> Any:
        said.append(place.commit(work) if said or plan is None else plan)
        return said[-1]

    assert perform(place.context(), "estimate", estimate, 0, commit) == "succeeded"
    with read(place.engine) as session:
        mine = EstimateRollout.estimate_id == estimate
        assert session.scalar(select(func.count()).where(mine)) == GROUPS * SIZE
    return [step for step in said if isinstance(step, int)]


def test_transactions_grow(tmp_path: Path, data_template: Path) -> None:
    with installation(tmp_path, data_template, chunk_bytes=SIZE * ROW_BYTES) as place:
        assert steps(place) == [2, 6, 12, 18, 24]


def test_an_attempt_of_an_earlier_version_goes_on_in_its_steps(tmp_path: Path, data_template: Path) -> None:
    with installation(tmp_path, data_template) as place:
        assert steps(place, {"chunk_bytes": 4 * SIZE * ROW_BYTES}) == [8, 16, 24]
