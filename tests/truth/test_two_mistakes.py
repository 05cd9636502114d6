"""Two mistakes at once are never called a third."""

import pytest

from tests.truth.mistaken import BATCHES, counted, drawn

BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_two_mistakes_are_never_called_a_third(block: int) -> None:
    found = counted(drawn(True, 10_000_000 * (1 + block), BATCHES // BLOCKS))
    assert not found.wrong
    assert found.batches == BATCHES // BLOCKS
