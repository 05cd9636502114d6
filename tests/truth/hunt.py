"""Look for batches of which something untrue is said."""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import app  # noqa: F401
from estimators import CONVENTIONS
from tests.truth.judging import judged
from tests.truth.making import made
from tests.truth.storing import shop

SHOWN = ("convention", "mistake", "matched", "max_abs_error", "whitening", "same_as", "explanation")

if __name__ == "__main__":
    torch.set_num_threads(1)
    show = "--show" in sys.argv
    words = [word for word in sys.argv[1:] if word != "--show"]
    first, count = int(words[0]), int(words[1])
    wanted = words[2:] or list(CONVENTIONS)
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder)) as place:
        for name in wanted:
            start, tally = time.monotonic(), Counter()
            for seed in range(first, first + count):
                batch = made(name, seed)
                if batch is None:
                    tally["refused"] += 1
                    continue
                said = place.said(batch.rows, batch.header)
                found = judged(batch, said)
                if show:
                    print(json.dumps(batch.header), *map(json.dumps, batch.rows), sep="\n")
                    for each in said.verdict["candidates"][:8]:
                        print({name: each[name] for name in SHOWN})
                tally[found.outcome] += 1
                for each in found.untrue:
                    print(f"{batch.name}: {each}".replace("\n", " "), flush=True)
            print(f"== {name} {dict(tally)} {time.monotonic() - start:.1f} s", flush=True)
