"""Nothing untrue is said of correct batches: classes baseline, other."""

from pathlib import Path

import pytest

from tests.truth.held import BLOCKS, untrue


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", ["baseline", "other"])
def test_correct_batches_are_accused_of_nothing_untrue(tmp_path: Path, name: str, block: int) -> None:
    assert untrue(tmp_path, name, block) == []
