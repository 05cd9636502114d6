"""Nothing untrue is said of correct batches, whatever their shape, writing and header."""

from pathlib import Path

import pytest

from tests.truth.law import counted
from tests.truth.shapes import KINDS
from tests.truth.storing import shop

#: Conventions that are looked at with every change, one batch of each shape; `make truth` looks at all.
HELD = ("grpo/verl", "grpo/trl-group", "grpo/trl-batch")


@pytest.mark.parametrize("name", HELD)
def test_correct_batches_are_accused_of_nothing_untrue(tmp_path: Path, name: str) -> None:
    with shop(tmp_path) as place:
        count = counted(place, ((name, seed) for seed in range(len(KINDS))))[name]
    assert count.batches > len(KINDS) / 2
    assert count.untrue == []
