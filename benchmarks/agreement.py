"""Our advantages beside the frameworks' own functions on seeded random batches: `make test-peers`.

    python benchmarks/agreement.py [--batches 70] [--nasty 40] [--write]

verl's whole registry, KL penalties, whitening and averages of losses; OpenRLHF's estimators, TRL's GRPO and
RLOO trainers between rewards and advantages, torchrl's GAE; and, where `VANTAGE_PEERS_DIR` holds them, single
functions of frameworks without a package (`agreement_pinned`). Fails where any disagrees; prints a table of
the largest errors, and with `--write` puts it into docs/agreement.md.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import peers

if __name__ == "__main__":
    peers.reexec()

import agreement_others
import agreement_pinned
import agreement_verl
import numpy as np
import torch
from agreement_batches import Padded, make, nasty
from agreement_pairs import DOUBLE, NOISE, SINGLE, Pair, Tally, compare

from estimators import CONVENTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "agreement.md"
HEAD = f"""# Agreement with the frameworks' own functions

Written by `make test-peers`, which installs the frameworks as published
({", ".join(peers.PEERS)})
and runs their functions beside ours on {{batches}} seeded random batches: groups of one, of equal and of
mixed sizes, interleaved, under ids of every kind; empty responses, rows masked from end to end, masked spans;
rewards that are equal in a group, ties, all zero, or around a million; rewards on the last unmasked token, on
the last cell, or spread; and on {{nasty}} with what breaks arithmetic: groups of 8 and 16 times .1, .3, .7 or
100.1, NaN and infinite rewards, spreads whose squares overflow, ids like "07", "+7" and "1e3". An error is
the largest |difference| / max(1, max |A|). Where squares overflow ours refuses, with a sentence, what
frameworks turn into 0 or NaN. Scores that are not finite are compared where rollouts are compared with each
other and the score stands on an unmasked token: on a masked one ours leaves it out, and of estimators
per token (GAE, REINFORCE++, ReMax, token baselines) ours keeps whitening to the finite ones, where a
framework's whole batch is NaN. Groups of equal rewards in single precision are not compared for REINFORCE++
and GDPO: they whiten over the batch what rounding left, and that depends on how the framework pads.

Double precision agrees within {DOUBLE:g}. Functions that round on the way to single precision (marked ·), and
single precision itself, agree within {SINGLE:g}, or a millionth of the largest reward where that is more, or
{NOISE:g} where nothing but rounding is left to be divided. Columns: the batches that the function is for,
those that ours or both refuse, the largest error in double and in single precision (of batches held to
{SINGLE:g}), and the batches on which single precision is the same bit by bit.

{{pinned}}

## By convention

How each convention was compared: by the framework's package, by a single function of its source that is
pinned by its hash, or by numbers only that its code gave once (`tests/data/cases`).

| convention | compared by | functions |
|---|---|---|
{{conventions}}

## By function

| function | batches | refused | double | single | same bits |
|---|---|---|---|---|---|
"""


def row(pair: Pair, double: Tally | None, single: Tally | None) -> str:
    mark = " ·" if pair.by_float else ""
    told = single if double is None else double
    assert told is not None
    two, one = ("–" if each is None else f"{each.worst:.1e}" for each in (double, single))
    same = "–" if single is None else f"{single.equal} of {single.batches}"
    return f"| `{pair.name}`{mark} | {told.batches} | {told.refused} | {two} | {one} | {same} |"


def convention_of(pair: Pair) -> str | None:
    """The convention that a pair asks for."""
    body: dict[str, Any] = pair.request(make(0)) if callable(pair.request) else pair.request
    return body.get("convention")


def by_convention(packaged: list[Pair], pinned: list[Pair]) -> str:
    """A row for each convention."""
    lines = []
    for name, convention in CONVENTIONS.items():
        own = [pair for pair in packaged if convention_of(pair) == name]
        single = [pair for pair in pinned if convention_of(pair) == name]
        how = " and ".join(["package"] * bool(own) + ["pinned function"] * bool(single))
        if not how:
            how = "not at all: no framework has it" if convention.framework is None else "cases only"
        said = ", ".join(f"`{pair.name}`" for pair in (*own[:2], *single[:2]))
        more = len(own) + len(single) - len(own[:2]) - len(single[:2])
        lines.append(f"| `{name}` | {how} | {said}{f' and {more} more' if more else ''} |")
    return "\n".join(lines)


def compared(pair: Pair, batches: list[Padded], failed: list[str]) -> str:
    """The row of a pair, its failures added to `failed`."""
    tallies: list[Tally | None] = []
    for single, wanted in enumerate((pair.double, pair.single)):
        tally = Tally() if wanted else None
        for given in batches if tally is not None else ():
            compare(pair, given, bool(single), tally)
        tallies.append(tally)
        failed += [
            f"{pair.name}, {('double', 'single')[single]}: {each}"
            for each in (tally.failures if tally else ())
        ]
    return row(pair, tallies[0], tallies[1])


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batches", type=int, default=70)
    arguments.add_argument("--nasty", type=int, default=40)
    arguments.add_argument("--write", action="store_true", help="write docs/agreement.md")
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    np.seterr(all="ignore")  # What overflows in a framework is compared, not warned of.
    packaged, (pinned, missing) = agreement_verl.pairs(), agreement_pinned.pairs()
    failed = sorted(
        f"no pair calls {name} of verl's registry" for name in agreement_verl.missing_from(packaged)
    )
    packaged += agreement_others.pairs()
    batches = [make(seed) for seed in range(chosen.batches)] + [nasty(seed) for seed in range(chosen.nasty)]
    rows = []
    for pair in packaged + pinned:
        rows.append(compared(pair, batches, failed))
        print(rows[-1], flush=True)
    named = "; ".join(sorted({each.split("/")[0] for each in agreement_pinned.FILES}))
    said = f"Single functions of {named} were compared as pinned by their hashes."
    if missing:
        said = f"Frameworks without a package were not compared here: {'; '.join(missing)}."
        print(said)
    if chosen.write:
        head = HEAD.format(
            batches=chosen.batches,
            nasty=chosen.nasty,
            pinned=said,
            conventions=by_convention(packaged, pinned),
        )
        PAGE.write_text(head + "\n".join(rows) + "\n")
    print("\n".join(failed) or f"All {len(rows)} agree.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
