"""What is said of batches that were made wrong: right, open, or a name that is not theirs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from estimators.reconcile import Reconciliation, Recorded, reconcile
from estimators.reconcile_proof import fitted, name_of
from tests.truth.planted import NAMES, PAIRS, Planted, planted

#: So many batches of each kind; more by the environment, as every night.
BATCHES = int(os.environ.get("VANTAGE_TRUTH", "100"))
#: Labels that do not begin with the name of their mistake.
OF = {
    "rejected_left_out": "rejected_vote", "missing_as_zero": "rejected_vote", "other_mask": "mask_shifted",
    "single_grouping": "batch_grouping",
}  # fmt: skip


@dataclass(slots=True)
class Count:
    """right       a mistake that was made, by its name
    several     one of several that fit as well, all of them told
    legal       a convention that does the same without any mistake, or the configured one set otherwise
    open        nothing is named, or what fits is told as what fits
    wrong       a name that is not right
    """

    right: int = 0
    several: int = 0
    legal: int = 0
    open: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def batches(self) -> int:
        return self.right + self.several + self.legal + self.open + len(self.wrong)


def drawn(pairs: bool, first: int, count: int) -> Iterator[tuple[int, Planted]]:
    """(seed, batch) of `count` batches from the seed `first` on, each kind in turn."""
    seed = first
    while count:
        names = PAIRS[seed * 37 % len(PAIRS)] if pairs else (NAMES[seed % len(NAMES)],)
        made = planted(seed, names)
        if made is not None:
            yield seed, made
            count -= 1
        seed += 1


def judged(made: Planted) -> tuple[str, Reconciliation]:
    """One of the words of `Count`, and the answer."""
    found = reconcile(made.batch, Recorded(made.advantages, True), made.hints)
    agreeing = [each for each in found.candidates if each.matched]
    if found.verdict == "no_match":
        return "open", found
    if agreeing[0].mistake is None:
        return "legal", found
    planted_names = {_name(label) for label in made.labels}
    tops = [each for each in agreeing if each.mistake is not None]
    if found.verdict == "match" or agreeing[0].proved:
        true = _name(tops[0].mistake) in planted_names or _is_line(made, tops[0].mistake, tops[0].convention)
        return ("right" if true else "wrong"), found
    if planted_names & {_name(each.mistake) for each in tops}:
        return "several", found
    lines = any(_is_line(made, each.mistake, each.convention) for each in tops)
    return ("open" if lines else "wrong"), found


def counted(batches: Sequence[tuple[int, Planted]] | Iterator[tuple[int, Planted]]) -> Count:
    count = Count()
    for seed, made in batches:
        word, found = judged(made)
        if word != "wrong":
            setattr(count, word, getattr(count, word) + 1)
            continue
        named = [(each.convention, each.mistake) for each in found.candidates[:3]]
        count.wrong.append(f"seed {seed}: {' and '.join(made.labels)} on {made.convention}: {named}")
    return count


def _name(label: str | None) -> str:
    name = name_of(label)
    return OF.get(name, name)


def _is_line(made: Planted, label: str | None, convention: str) -> bool:
    """Whether the label tells of constants, and the numbers are a line of the right ones: then it is true,
    whatever else made the line."""
    if not fitted(label) or convention != made.convention:
        return False
    seen = made.batch.response_mask
    right, wrong = made.right[seen], made.advantages[seen].double()
    columns = torch.stack([right, torch.ones_like(right)], dim=1)
    answer = torch.linalg.lstsq(columns, wrong.unsqueeze(1), driver="gelsd").solution
    away = (columns @ answer).squeeze(1) - wrong
    return bool(away.abs().max() <= 1e-4 * wrong.abs().max())
