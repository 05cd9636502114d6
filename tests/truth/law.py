"""The law over seeded batches: what is said of correct ones, class by class of the catalogue."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from estimators import CONVENTIONS
from estimators.conventions.dr_grpo import DR_GRPO
from estimators.conventions.gae import GAE
from estimators.conventions.grpo import GRPO
from estimators.conventions.other import BASELINE, OTHER
from estimators.conventions.reinforce import REINFORCE
from estimators.conventions.rloo import RLOO
from tests.truth.judging import Judged, judged
from tests.truth.making import Made, made
from tests.truth.storing import Shop

#: Batches of each class; `make truth` asks for 5,000.
BATCHES = int(os.environ.get("VANTAGE_TRUTH", "100"))
#: Conventions of each class of the catalogue.
CLASSES: dict[str, tuple[str, ...]] = {
    name: tuple(each.name for each in family)
    for name, family in (
        ("gae", GAE),
        ("grpo", GRPO),
        ("dr_grpo", DR_GRPO),
        ("rloo", RLOO),
        ("reinforce", REINFORCE),
        ("baseline", BASELINE),
        ("other", OTHER),
    )
}
assert {name for names in CLASSES.values() for name in names} == CONVENTIONS.keys()
#: So far apart begin the seeds of two conventions of a class: each has every shape sooner or later.
APART = 31


@dataclass(slots=True)
class Count:
    """Of one convention: how many batches had which outcome, and what was untrue."""

    convention: str
    batches: int = 0
    refused: int = 0
    outcomes: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("right", "open", "silent", "wrong"), 0)
    )
    untrue: list[str] = field(default_factory=list)

    def add(self, batch: Made | None, found: Judged | None) -> None:
        if batch is None or found is None:
            self.refused += 1
            return
        self.batches += 1
        self.outcomes[found.outcome] += 1
        self.untrue += [f"{batch.name}: {each}" for each in found.untrue]


def drawn(names: Sequence[str], first: int, last: int) -> Iterator[tuple[str, int]]:
    """(convention, seed) of the batches `first` … `last` − 1 of a class."""
    for number in range(first, last):
        place = number % len(names)
        yield names[place], number // len(names) + APART * place


def counted(place: Shop, batches: Iterator[tuple[str, int]]) -> dict[str, Count]:
    """What was said of these batches, by convention."""
    found: dict[str, Count] = {}
    for name, seed in batches:
        count = found.setdefault(name, Count(name))
        batch = made(name, seed)
        count.add(batch, None if batch is None else judged(batch, place.said(batch.rows, batch.header)))
    return found
