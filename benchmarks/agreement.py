"""Our advantages beside the frameworks' own functions on seeded random batches: `make test-peers`.

    python benchmarks/agreement.py [--batches 140] [--write]

verl's whole registry, KL penalties, whitening and averages of losses; OpenRLHF's estimators, TRL's GRPO and
RLOO trainers between rewards and advantages, torchrl's GAE. Fails where any disagrees; prints a table of the
largest errors, and with `--write` puts it into docs/agreement.md.
"""

import argparse
import sys
from pathlib import Path

import peers

if __name__ == "__main__":
    peers.reexec()

import agreement_others
import agreement_verl
import torch
from agreement_batches import make
from agreement_pairs import DOUBLE, NOISE, SINGLE, Pair, Tally, compare

PAGE = Path(__file__).resolve().parent.parent / "docs" / "agreement.md"
HEAD = f"""# Agreement with the frameworks' own functions

Written by `make test-peers`, which installs the frameworks as published
({", ".join(peers.PEERS)})
and runs their functions beside ours on {{batches}} seeded random batches: groups of one, of equal and of
mixed sizes, interleaved, under ids of every kind; empty responses, rows masked from end to end, masked spans;
rewards that are equal in a group, ties, all zero, or around a million; rewards on the last unmasked token, on
the last cell, or spread. An error is the largest |difference| / max(1, max |A|).

Double precision agrees within {DOUBLE:g}. Functions that round on the way to single precision (marked ·), and
single precision itself, agree within {SINGLE:g}, or a millionth of the largest reward where that is more, or
{NOISE:g} where nothing but rounding is left to be divided. Columns: the batches that the function is for,
those that both refuse, the largest error in double and in single precision (of batches held to {SINGLE:g}).

| function | batches | refused by both | double | single |
|---|---|---|---|---|
"""


def row(pair: Pair, double: Tally, single: Tally | None) -> str:
    mark = " ·" if pair.by_float else ""
    one = "–" if single is None else f"{single.worst:.1e}"
    return f"| `{pair.name}`{mark} | {double.batches} | {double.refused} | {double.worst:.1e} | {one} |"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batches", type=int, default=140)
    arguments.add_argument("--write", action="store_true", help="write docs/agreement.md")
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    made = agreement_verl.pairs()
    failed = sorted(f"no pair calls {name} of verl's registry" for name in agreement_verl.missing_from(made))
    batches, rows = [make(seed) for seed in range(chosen.batches)], []
    for pair in made + agreement_others.pairs():
        tallies = [Tally()] + ([Tally()] if pair.single else [])
        for single, tally in enumerate(tallies):
            for given in batches:
                compare(pair, given, bool(single), tally)
            failed += [f"{pair.name}, {('double', 'single')[single]}: {each}" for each in tally.failures]
        rows.append(row(pair, tallies[0], tallies[1] if pair.single else None))
        print(rows[-1], flush=True)
    if chosen.write:
        PAGE.write_text(HEAD.format(batches=chosen.batches) + "\n".join(rows) + "\n")
    print("\n".join(failed) or f"All {len(rows)} agree.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
