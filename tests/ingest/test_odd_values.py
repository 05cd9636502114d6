"""Values of other types than expected, anywhere in a row of any framework: sentences, never a surprise."""

import json
import random
from pathlib import Path

import pytest

from app.errors import AppError
from app.settings import Settings
from tests.ingest.fuzzing.judge import records
from tests.ingest.fuzzing.values import exchanged, rows_of
from tests.ingest.reading import SAMPLES, read

FILES = [
    path
    for path in sorted(SAMPLES.rglob("*"))
    if path.suffix in (".json", ".jsonl") and "broken" not in path.parts and path.stat().st_size
]
ROUNDS = 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_odd_values_never_surprise(path: Path, tmp_path: Path) -> None:
    source = random.Random(path.name)
    found = rows_of(path.read_bytes())
    assert found is not None
    rows, separator = found
    settings = Settings(data_dir=tmp_path)
    for number in range(ROUNDS):
        chosen = rows[:6]
        at = source.randrange(len(chosen))
        chosen[at] = exchanged(chosen[at], source)
        damaged = tmp_path / f"{number}"
        damaged.write_text(separator.join(json.dumps(row) for row in chosen) + separator)
        try:
            outcome = read(damaged, settings=settings)
        except AppError as refusal:
            assert refusal.detail
            continue
        assert list(records(outcome)) == []
