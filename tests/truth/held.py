"""The law for the classes of one test file."""

from pathlib import Path

from tests.truth.law import BATCHES, CLASSES, counted, drawn
from tests.truth.storing import shop

#: A class is looked at in so many tests, that one failure does not hide the next.
BLOCKS = 4


def untrue(folder: Path, name: str, block: int) -> list[str]:
    """What was untrue about the batches of one block of a class."""
    first, last = block * BATCHES // BLOCKS, (block + 1) * BATCHES // BLOCKS
    with shop(folder) as place:
        found = counted(place, drawn(CLASSES[name], first, last))
    assert sum(count.batches for count in found.values()) > (last - first) / 2
    return [each for count in found.values() for each in count.untrue]
