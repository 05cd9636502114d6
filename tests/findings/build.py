"""Batches with something wrong, from a compact description."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from app import findings
from storage.database import read
from tests.builders import make_batch


def run_findings(
    engine: Engine,
    rewards: Sequence[Sequence[float | None]],
    header: dict[str, Any] | None = None,
    **given: Any,
) -> dict[str, dict[str, Any]]:
    """The findings of a batch built by `make_batch`, by code."""
    fields = {name: "recorded" for name in (*(given.get("arrays") or {}), "reward", "group_id")}
    batch = make_batch(engine, rewards, fields=fields | given.pop("fields", {}), **given)
    with read(engine) as session:
        said = findings.run(session, batch.id, header=header)
    for each in said:
        assert set(each) == MEMBERS
        assert all(each[name].endswith(".") for name in ("title", "explanation", "remedy")), each
    return {each["code"]: each for each in said}


CASES = Path(__file__).parent.parent / "data" / "diagnosis"
MEMBERS = {
    "code", "severity", "title", "explanation", "remedy", "evidence", "groups", "groups_total", "rollouts",
    "rollouts_total",
}  # fmt: skip


def case(number: str) -> list[dict[str, Any]]:
    """The rows of a diagnosis case."""
    (path,) = CASES.glob(f"{number}-*.json")
    rows: list[dict[str, Any]] = json.loads(path.read_text())["input"]["rows"]
    return rows


def from_case(engine: Engine, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The findings of a diagnosis case's rows, which are adjacent by group."""
    names = list(dict.fromkeys(row["group"] for row in rows))
    members = [[row for row in rows if row["group"] == name] for name in names]
    ordered = [row for group in members for row in group]
    arrays: dict[str, Any] = {"response_mask": [row["response_mask"] for row in ordered]}
    for field, name in (
        ("token_rewards", "token_level_rewards"),
        ("values", "values"),
        ("advantages", "advantages"),
    ):
        if field in rows[0]:
            arrays[name] = [np.array(row[field], dtype=float) for row in ordered]
    return run_findings(
        engine,
        [[row["reward"] for row in group] for group in members],
        group_ids=names,
        arrays=arrays,
        columns={"response": [row["response"] for row in ordered]},
    )
