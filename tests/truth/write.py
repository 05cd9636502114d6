"""Write docs/truth.md: how often what is said of batches is right, open, silent or wrong.

    VANTAGE_TRUTH=5000 python -m tests.truth.write [--processes 2]

Fails where anything was wrong.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import app  # noqa: F401  # for what it does: sets how torch's threads wait, before torch is loaded
from tests.truth import mistaken
from tests.truth.law import BATCHES, CLASSES, Count, counted, drawn
from tests.truth.storing import shop

PAGE = Path(__file__).parents[2] / "docs" / "truth.md"
BLOCK = 50
#: So far apart begin the seeds of two blocks of planted mistakes: some draws give no batch.
APART = 1_000_003
HEAD = """# What is said, and how much of it is true

Written by `make truth`. Each batch goes through reader, storage, reconciling and findings as an upload does.

* right: one convention (or mistake) is named, and it is the one;
* open: several are named that the numbers cannot tell apart, the right one among them;
* silent: nothing is named, and nobody is accused;
* wrong: anything untrue is said, by the verdict or by any finding. Must be 0.

## Correct batches

{batches} batches of each class of conventions, with the convention's legal options in its framework's own
spelling: tiny and degenerate batches, groups of one, constant groups (.1, .3, .7 and 100.1, of 4, 8 and 16),
masks inside and at the end, fully masked rollouts, padding, interleaved and shuffled rows, tasks and ranks,
validation splits, truncated rollouts; recorded in float64, float32, to seven decimals, or once per rollout;
with the framework's configuration as header, with the estimator's name alone, and without any. Advantages
come from slow independent loops and, for float32, from the frameworks' own sequence of torch operations,
where there are any, else from the estimators. *refused*: shapes that the convention does not take.

| convention | batches | refused | right | open | silent | wrong |
|---|---|---|---|---|---|---|
"""
WRONG_HEAD = """
## Planted mistakes, one and two at a time

{batches} batches of each: right: a mistake that was made, by its name; several: it is one of several that fit
as well, all of them told; legal: a convention or a setting does the same without any mistake, and that is
said; open: nothing is named, or what fits is told as what fits; wrong: a name that is not right.

| planted | batches | right | several | legal | open | wrong |
|---|---|---|---|---|---|---|
"""


def block(task: tuple[str, int, int]) -> dict[str, Count]:
    """The batches `first` … `last` − 1 of a class, in a process of its own."""
    import torch

    torch.set_num_threads(1)
    name, first, last = task
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder)) as place:
        return counted(place, drawn(CLASSES[name], first, last))


def summed(parts: Iterator[dict[str, Count]]) -> dict[str, Count]:
    found: dict[str, Count] = {}
    for part in parts:
        for name, count in part.items():
            total = found.setdefault(name, Count(name))
            total.batches += count.batches
            total.refused += count.refused
            total.untrue += count.untrue
            for outcome, number in count.outcomes.items():
                total.outcomes[outcome] += number
    return found


def row(count: Count) -> str:
    cells = [count.batches, count.refused, *count.outcomes.values()]
    return f"| `{count.convention}` | " + " | ".join(map(str, cells)) + " |"


def mistakes(task: tuple[bool, int, int]) -> mistaken.Count:
    """So many batches with one mistake, or two, from a seed on, in a process of its own."""
    import torch

    torch.set_num_threads(1)
    pairs, first, count = task
    return mistaken.counted(mistaken.drawn(pairs, first, count))


def mistaken_row(name: str, parts: Sequence[mistaken.Count]) -> str:
    words = ("right", "several", "legal", "open")
    cells = [sum(getattr(part, word) for part in parts) for word in words]
    wrong = sum(len(part.wrong) for part in parts)
    return f"| {name} | " + " | ".join(map(str, [sum(cells) + wrong, *cells, wrong])) + " |"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--processes", type=int, default=2)
    tasks = [
        (name, first, min(first + BLOCK, BATCHES)) for first in range(0, BATCHES, BLOCK) for name in CLASSES
    ]
    blocks = range(0, BATCHES, BLOCK)
    with ProcessPoolExecutor(arguments.parse_args().processes, get_context("spawn")) as pool:
        counts = summed(pool.map(block, tasks))
        wrong = {
            name: list(pool.map(mistakes, [(pairs, APART * first, BLOCK) for first in blocks]))
            for name, pairs in (("one mistake", False), ("two mistakes", True))
        }
    order = [name for names in CLASSES.values() for name in names]
    lines = [row(counts[name]) for name in order if name in counts]
    more = [mistaken_row(name, parts) for name, parts in wrong.items()]
    size = f"{BATCHES:,}"
    page = HEAD.format(batches=size) + "\n".join(lines) + "\n" + WRONG_HEAD.format(batches=size)
    PAGE.write_text(page + "\n".join(more) + "\n")
    untrue = [each for count in counts.values() for each in count.untrue]
    untrue += [each for parts in wrong.values() for part in parts for each in part.wrong]
    print("\n".join(untrue))  # noqa: T201
    return 1 if untrue else 0


if __name__ == "__main__":
    raise SystemExit(main())
