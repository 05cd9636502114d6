"""The second table of docs/truth.md: what is said of batches with one planted mistake, or with two."""

from tests.truth.mistaken import Count, counted, drawn
from tests.truth.planted import NAMES

Row = tuple[str, int, int, int, int, int]


def table(batches: int) -> list[Row]:
    """(mistakes, batches, right, open, silent, wrong): `batches` with one mistake, each in turn, and as many
    with two. A convention that does the same without a mistake is right; one of several that fit is open."""
    found: dict[str, list[Count]] = {name: [] for name in NAMES}
    for seed, made in drawn(False, 1, batches):
        found[NAMES[seed % len(NAMES)]].append(counted([(seed, made)]))
    rows = [_row(name, counts) for name, counts in found.items()]
    return [*rows, _row("two at once", [counted(drawn(True, 1, batches))])]


def _row(name: str, counts: list[Count]) -> Row:
    right = sum(each.right + each.legal for each in counts)
    several, silent = sum(each.several for each in counts), sum(each.open for each in counts)
    wrong = sum(len(each.wrong) for each in counts)
    return name, sum(each.batches for each in counts), right, several, silent, wrong
