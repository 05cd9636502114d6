"""No finding on a clean batch, whatever its shape."""

import pytest

from tests.findings.cases import findings_of_rows
from tests.findings.clean import clean_rows
from tests.findings.memory import codes_of
from tests.working import Place

BATCHES, BLOCK = 200, 25


@pytest.mark.parametrize("block", range(BATCHES // BLOCK))
def test_nothing_fires_on_clean_batches(block: int) -> None:
    said = {}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        header, rows = clean_rows(seed)
        said[seed] = [found["title"] for found in codes_of(rows, header).values()]
    assert said == {seed: [] for seed in said}


@pytest.mark.parametrize("seed", [0, 7, 14, 27, 34, 47])
def test_nothing_fires_after_a_real_upload(place: Place, seed: int) -> None:
    header, rows = clean_rows(seed)
    assert findings_of_rows(place, rows, header) == {}
