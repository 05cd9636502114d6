"""The second table of docs/truth.md: what is said of batches with one planted mistake, or with two."""

from typing import Any

from tests.truth.mistaken import counted, drawn

KINDS = (("one mistake", False), ("two mistakes", True))
COLUMNS = ("planted", "batches", "right", "several, the right one among them", "legal", "open", "wrong")


def rows(count: int, first: int = 1) -> list[dict[str, Any]]:
    """One row per kind, `count` batches each, from the seed `first` on."""
    found = []
    for name, pairs in KINDS:
        said = counted(drawn(pairs, first, count))
        numbers = (said.batches, said.right, said.several, said.legal, said.open, len(said.wrong))
        found.append(dict(zip(COLUMNS, (name, *numbers), strict=True)))
    return found
