"""Rows that fill up a batch are set aside and said so, whatever they look like."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from app import findings
from app.figures.chosen import choose
from app.figures.reward_histogram import draw
from app.pages.cells import read_cells
from storage import batches
from storage.database import read, write
from tests.findings.cases import load
from tests.findings.ingested import canonical, ingest
from tests.findings.varied_more import filled, numbers
from tests.pages.conftest import jsonl


@pytest.mark.parametrize("seed", range(12))
def test_fillers_are_in_no_statistic(sqlite_engine: Engine, tmp_path: Path, seed: int) -> None:
    made = filled(np.random.default_rng([seed, 34]))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(jsonl(made.rows))
    with write(sqlite_engine) as session:
        (batch_id,) = ingest(session, path)
        statistics, found = findings.assess(session, batch_id)
        batch = batches.get_any(session, batch_id)
        assert batch is not None
        batch.statistics = statistics
    said = {each["code"]: each for each in found}
    expected = numbers(made.real)
    assert statistics["fillers"] == len(made.fillers)
    assert statistics["rollouts"] == expected["rollouts"] and statistics["reward"]["n"] == expected["n"]
    assert statistics["reward"]["mean"] == pytest.approx(expected["mean"])
    assert statistics["reward"]["std"] == pytest.approx(expected["std"])
    assert sum(statistics["signal"]["groups"].values()) == expected["groups"]
    assert statistics["zero_signal_share"] == pytest.approx(expected["zero_signal_share"])
    assert statistics["length"]["all"]["mean"] == pytest.approx(expected["mean_length"])
    empty = said.pop("empty_response")
    assert set(empty["rollouts"]) == set(made.fillers) and empty["severity"] == "info"
    assert empty["evidence"]["fillers"] == len(made.fillers) and "set aside" in empty["title"]
    for each in said.values():
        assert not set(each["rollouts"]) & set(made.fillers), each["code"]
    with read(sqlite_engine) as session:
        stored = batches.get_any(session, batch_id)
        assert stored is not None
        drawn = draw(session, stored, {})
        shown = read_cells(session, stored, choose(session, stored, None))
    assert drawn["layout"]["meta"]["n"] == expected["n"]
    aside = {cell.group_id for cell in shown if cell.signal == "filler"}
    assert aside == {made.rows[place]["group_id"] for place in made.fillers}


def test_the_known_case_of_two_fillers(sqlite_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(jsonl(canonical("34")))
    with write(sqlite_engine) as session:
        (batch_id,) = ingest(session, path)
        statistics, _ = findings.assess(session, batch_id)
    expected = load("34")["expect"]
    assert statistics["reward"]["mean"] == expected["mean_reward"]["right"]
    assert sum(statistics["signal"]["groups"].values()) == expected["groups"]["right"]
    assert statistics["zero_signal_share"] == expected["zero_variance_fraction"]["right"]
    assert statistics["fillers"] == 2
