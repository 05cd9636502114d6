"""No finding on a clean batch, whatever its shape."""

import pytest
from sqlalchemy import Engine

from app import findings
from storage.database import read
from tests.findings.clean import clean_batch


@pytest.mark.parametrize("block", range(6))
def test_nothing_fires_on_clean_batches(sqlite_engine: Engine, block: int) -> None:
    said = {}
    for seed in range(block * 10, block * 10 + 10):
        batch = clean_batch(sqlite_engine, seed)
        with read(sqlite_engine) as session:
            said[seed] = [found["title"] for found in findings.run(session, batch.id)]
    assert said == {seed: [] for seed in said}
