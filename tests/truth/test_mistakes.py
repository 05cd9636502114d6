"""Whatever mistake was made, the verdict is right or honestly open: it never has another name."""

import pytest

from tests.truth.mistaken import BATCHES, counted, drawn

#: Parts of the batches, so that one failure does not hide the next.
BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_mistake_is_never_called_another(block: int) -> None:
    found = counted(drawn(False, 10_000_000 * (1 + block), BATCHES // BLOCKS))
    assert not found.wrong
    assert found.right + found.several > found.batches / 3
