"""Work that grows with the square of what a file holds, and more of it than is taken."""

import json
import sqlite3
import time
from pathlib import Path

import pytest

from app.errors import TooLarge
from app.ingest.record import Header
from app.intake import Intake, Plan
from app.settings import Settings
from tests.ingest.reading import read

ROW = {"prompt": "p", "response": "r", "reward": 1.0}


def wide(folder: Path, fields: int) -> Path:
    path = folder / f"{fields}.jsonl"
    row = ROW | {f"unknown_{n}": n for n in range(fields)} | {"values": [0.5, 1.5], "response_ids": [1, 2]}
    path.write_text(json.dumps(row) + "\n")
    return path


def test_a_row_of_very_many_fields_is_refused_soon(tmp_path: Path) -> None:
    path = wide(tmp_path, 100_000)
    began = time.process_time()
    outcome = read(path)
    assert time.process_time() - began < 10.0, "before, 50 s and more"
    assert outcome.rollouts == []
    assert outcome.only("too_many_fields").message == (
        "row 1: 100,000 fields of no known name, more than 10,000 (VANTAGE_MAX_FIELDS); the row was not taken"
    )


def test_a_row_of_many_fields_is_read_as_one_of_few(tmp_path: Path) -> None:
    (rollout,) = read(wide(tmp_path, 1_000)).rollouts
    assert rollout.extra == {f"unknown_{n}": n for n in range(1_000)}
    assert rollout.tokens["values"].tolist() == [0.5, 1.5]
    assert rollout.tokens["response_ids"].tolist() == [1, 2]


def metrics(number: int) -> str:
    row = {"prompt": "p", "completion": f"c {number}", "reward": 1.0}
    return json.dumps({"table": {"_type": "trackio.table", "_value": [row]}})


def test_a_trackio_database_of_very_many_runs_is_read_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "trackio.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (run_name TEXT, step INTEGER, metrics TEXT)")
        rows = [(f"run {n}", 1, metrics(n) if n % 10_000 == 0 else "{}") for n in range(20_000)]
        connection.executemany("INSERT INTO metrics VALUES (?, ?, ?)", rows)
    connection.close()
    began = time.process_time()
    outcome = read(path)
    assert time.process_time() - began < 10.0, "before, 33 s"
    assert len(outcome.headers) == 20_000
    assert len(outcome.rollouts) == 2


def test_an_upload_of_more_batches_than_are_taken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text("".join(json.dumps(ROW | {"step": step}) + "\n" for step in range(11)))
    intake = Intake("u", {"default_run": "r"}, Plan(1 << 20, 1 << 20), 10)
    outcome = read(path, settings=Settings())
    list(intake.take(Header()))
    for rollout in outcome.rollouts[:10]:
        list(intake.take(rollout))
    with pytest.raises(TooLarge, match=r"more batches \(runs, steps and splits\) than 10"):
        list(intake.take(outcome.rollouts[10]))
