"""Look for correct batches of which something untrue is said, or show one of them.

    python -m tests.truth.hunt FIRST COUNT [CONVENTION …] [--show]

The seeds FIRST … FIRST + COUNT − 1 of each convention; `--show` also gives header, rows and candidates.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import app  # noqa: F401  # for what it does: sets how torch's threads wait, before torch is loaded
from estimators import CONVENTIONS
from tests.truth.judging import judged
from tests.truth.law import Count
from tests.truth.making import Made, made
from tests.truth.storing import Said, Shop, shop

SHOWN = ("convention", "mistake", "matched", "max_abs_error", "whitening", "same_as", "explanation")


def say(line: str) -> None:
    sys.stdout.write(" ".join(line.split("\n")) + "\n")
    sys.stdout.flush()


def show(batch: Made, said: Said) -> None:
    for line in (batch.header, *batch.rows):
        say(json.dumps(line))
    for each in said.verdict["candidates"][:8]:
        say(str({name: each[name] for name in SHOWN}))


def hunted(place: Shop, name: str, seeds: range, showing: bool) -> None:
    start, count = time.monotonic(), Count(name)
    for seed in seeds:
        batch = made(name, seed)
        if batch is None:
            count.add(None, None)
            continue
        said = place.said(batch.rows, batch.header)
        count.add(batch, judged(batch, said))
        if showing:
            show(batch, said)
        for each in count.untrue:
            say(each)
        count.untrue.clear()
    say(f"== {name} {count.outcomes} refused {count.refused} {time.monotonic() - start:.1f} s")


def main() -> None:
    import torch

    torch.set_num_threads(1)
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("first", type=int)
    arguments.add_argument("count", type=int)
    arguments.add_argument("conventions", nargs="*")
    arguments.add_argument("--show", action="store_true")
    chosen = arguments.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.count)
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder)) as place:
        for name in chosen.conventions or list(CONVENTIONS):
            hunted(place, name, seeds, chosen.show)


if __name__ == "__main__":
    main()
