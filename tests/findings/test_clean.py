"""No finding on a clean batch, whatever its shape."""

import os

import pytest

from tests.findings.cases import findings_of_rows
from tests.findings.clean import clean_rows
from tests.findings.clean_wide import wide_rows
from tests.findings.memory import codes_of
from tests.working import Place

BATCHES, BLOCK = 200, 25
#: Of the further shapes; 400 with `WIDE_BATCHES=400`.
WIDE = int(os.environ.get("WIDE_BATCHES", "100"))


@pytest.mark.parametrize("block", range(BATCHES // BLOCK))
def test_nothing_fires_on_clean_batches(block: int) -> None:
    said = {}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        header, rows = clean_rows(seed)
        said[seed] = [found["title"] for found in codes_of(rows, header).values()]
    assert said == {seed: [] for seed in said}


@pytest.mark.parametrize("block", range(WIDE // BLOCK))
def test_only_what_is_true_is_said_of_clean_batches_of_further_shapes(block: int) -> None:
    said = {}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        header, rows, true = wide_rows(seed)
        codes = codes_of(rows, header)
        said[seed] = [found["title"] for code, found in codes.items() if code not in true]
    assert said == {seed: [] for seed in said}


@pytest.mark.parametrize("seed", [0, 7, 14, 27, 34, 47])
def test_nothing_fires_after_a_real_upload(place: Place, seed: int) -> None:
    header, rows = clean_rows(seed)
    assert findings_of_rows(place, rows, header) == {}
