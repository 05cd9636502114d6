"""Write docs/truth.md: how often what is said of batches is right, open, silent or wrong.

    VANTAGE_TRUTH=5000 python -m tests.truth.write [--processes 2]

Fails where anything was wrong.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import app  # noqa: F401  # for what it does: sets how torch's threads wait, before torch is loaded
from tests.truth.law import BATCHES, CLASSES, Count, counted, drawn
from tests.truth.storing import shop

PAGE = Path(__file__).parents[2] / "docs" / "truth.md"
BLOCK = 50
#: Module with `table(batches)`, the rows of the second table.
MISTAKES = "tests.truth.mistakes"
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

| mistake | batches | right | open | silent | wrong |
|---|---|---|---|---|---|
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


def of_mistakes() -> Sequence[tuple[str, int, int, int, int, int]]:
    """(mistake or pair, batches, right, open, silent, wrong)."""
    if find_spec(MISTAKES) is None:
        return []
    found: Sequence[tuple[str, int, int, int, int, int]] = import_module(MISTAKES).table(BATCHES)
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--processes", type=int, default=2)
    tasks = [
        (name, first, min(first + BLOCK, BATCHES)) for first in range(0, BATCHES, BLOCK) for name in CLASSES
    ]
    with ProcessPoolExecutor(arguments.parse_args().processes, get_context("spawn")) as pool:
        counts = summed(pool.map(block, tasks))
    order = [name for names in CLASSES.values() for name in names]
    lines = [row(counts[name]) for name in order if name in counts]
    mistaken = of_mistakes()
    rows = [f"| {name} | " + " | ".join(map(str, cells)) + " |" for name, *cells in mistaken]
    more = WRONG_HEAD + "\n".join(rows) + "\n" if rows else ""
    PAGE.write_text(HEAD.format(batches=f"{BATCHES:,}") + "\n".join(lines) + "\n" + more)
    untrue = [each for count in counts.values() for each in count.untrue]
    print("\n".join(untrue))  # noqa: T201
    return 1 if untrue or any(cells[-1] for cells in mistaken) else 0


if __name__ == "__main__":
    raise SystemExit(main())
