"""The estimators beside verl's real functions and beside a copy of the same bytes, on one thread.

    python benchmarks/estimators_beside_peers.py [--sizes S,M,L,X] [--rounds 7]

prints the tables and writes benchmarks/results/estimators.json. Sizes are rollouts × tokens. "half valid" has
ragged ends and tool output masked in runs. Times are in single precision, as in training; double precision,
the default for answers, has rows of its own.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import peers
from keeping import keep

if __name__ == "__main__":
    peers.reexec()

import torch
from accuracy_rows import accuracy_rows, growth_row, memory_rows
from aggregate_rows import aggregate_rows
from estimator_inputs import SIZES, Row, copy_of, padded
from estimator_table import bounds_table, row, table
from group_rows import call_rows, group_rows
from other_peers import other_rows
from sweep_rows import sweep_rows
from timing import race

from estimators import Batch, Request, Whitening, estimate
from estimators.layout import layout_of
from estimators.recurrence import gae_packed
from estimators.tokens import whiten
from estimators.whitening import W_VERL

#: What misses of these lines come from, where they occur.
CACHE = (
    "the recurrence works in tiles of a few MiB that live in the last-level cache, which the machine's other "
    "work shares; the loop it is compared with waits for calls more than for memory, and by ± 25 %"
)
CALLS = "at this size a call costs as much as its arithmetic: the ratio is that of two numbers of calls"
STATISTICS = "two passes over the values in a shared cache, one for the moments and one to apply them"


class Verl:
    """verl's functions, with its whitening switched off where the recursion alone is timed."""

    def __init__(self) -> None:
        self.algos = peers.verl()
        self.whiten = self.algos.verl_F.masked_whiten

    def gae(self, given: Row, whiten_too: bool) -> Callable[[], object]:
        def call() -> object:
            self.algos.verl_F.masked_whiten = self.whiten if whiten_too else lambda values, mask: values
            try:
                return self.algos.compute_gae_advantage_return(**given, gamma=1.0, lam=0.95)
            finally:
                self.algos.verl_F.masked_whiten = self.whiten

        return call


def gae_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    found = []
    full_least = {"S": 100, "M": 35, "L": 20, "X": 80}
    half_least = {"M": 60, "L": 35, "X": 95}
    for size in sizes:
        for half in (True, False):
            batch, given = padded(*SIZES[size], half)
            layout = layout_of(batch)
            assert batch.token_level_rewards is not None and batch.values is not None
            r, v = (layout.pack(part, torch.float32) for part in (batch.token_level_rewards, batch.values))
            out = (torch.empty_like(r), torch.empty_like(r))
            valid = int(batch.response_mask.sum())
            result = race(
                {
                    "ours": lambda r=r, v=v, out=out, layout=layout: gae_packed(r, v, layout, 1.0, 0.95, out),
                    "peer": verl.gae(given, whiten_too=False),
                    "floor": copy_of((16 if half else 17) * valid),
                },
                rounds,
            )
            least = (half_least if half else full_least).get(size)
            name = "GAE, packed, half valid" if half else "GAE, padded, full"
            found.append(
                row(
                    name,
                    size,
                    result,
                    valid,
                    "verl's loop",
                    least,
                    5.5 if half else 4.5,
                    CALLS if size == "S" else CACHE,
                )
            )
    return found


def whitened_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    """Advantages, returns and the whitened advantages: what verl's function gives."""
    found = []
    least = {"S": 50, "M": 24, "L": 14, "X": 38}
    for size in sizes:
        batch, given = padded(*SIZES[size], False)
        layout = layout_of(batch)
        assert batch.token_level_rewards is not None and batch.values is not None
        r, v = batch.token_level_rewards, batch.values
        out, white = (torch.empty_like(r), torch.empty_like(r)), torch.empty_like(r)

        def ours(
            b: Batch = batch, r: Any = r, v: Any = v, layout: Any = layout, out: Any = out, white: Any = white
        ) -> None:
            gae_packed(r, v, layout, 1.0, 0.95, out)
            whiten(out[0], b, W_VERL, out=white)

        result = race(
            {"ours": ours, "peer": verl.gae(given, whiten_too=True), "floor": copy_of(26 * batch.tokens)},
            rounds,
        )
        name = "GAE with batch whitening, full"
        found.append(
            row(
                name,
                size,
                result,
                batch.tokens,
                "verl's function",
                least.get(size),
                6.5,
                CALLS if size == "S" else CACHE,
            )
        )
    return found


def whole_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    """`estimate` from the batch to advantages, returns and summaries, beside verl's whole function."""
    found = []
    for size in sizes:
        for half in (False, True):
            batch, given = padded(*SIZES[size], half)
            contestants: dict[str, Callable[[], object]] = {
                "peer": verl.gae(given, whiten_too=True),
                "floor": copy_of(26 * batch.tokens),
            }
            for precision in ("float32", "float64"):
                request = Request.from_dict(
                    {"convention": "gae/verl", "params": {"lam": 0.95}, "precision": precision}
                )
                contestants[precision] = partial(estimate, batch, request)
            result = race(contestants, rounds)
            for precision in ("float32", "float64"):
                name = f"estimate gae/verl, {'half valid' if half else 'full'}, {precision}"
                line = row(name, size, result, batch.tokens, "verl's function", None, 0, ours=precision)
                found.append(line | {"floors_at_most": None})
    return found


def whitening_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    found = []
    for size in sizes:
        batch, given = padded(*SIZES[size], False)
        values = given["values"]
        for scope, least, most in (("batch", 4.5, 5.5), ("group", 4.0, 6.0)):
            setting = Whitening(scope, zero_masked=False)  # type: ignore[arg-type] # a Scope, from the literals
            flat = values.view(-1)
            out = torch.empty_like(flat)
            result = race(
                {
                    "ours": lambda b=batch, f=flat, s=setting, o=out: whiten(f, b, s, out=o),
                    "peer": lambda v=values, m=given["response_mask"]: verl.whiten(v, m),
                    "floor": copy_of(14 * batch.tokens),
                },
                rounds,
            )
            found.append(
                row(
                    f"whitening alone, {scope}",
                    size,
                    result,
                    batch.tokens,
                    "masked_whiten",
                    least,
                    most,
                    STATISTICS,
                )
            )
    return found


def measure(sizes: list[str], rounds: int = 7) -> list[Row]:
    """Every line of the table; `faster` is against the peer, `floors` in copies of the same bytes."""
    verl = Verl()
    large = [size for size in sizes if size != "S"]
    return [
        *gae_rows(verl, sizes, rounds),
        *whitened_rows(verl, sizes, rounds),
        *whole_rows(verl, sizes, min(rounds, 3)),  # four times as many as the others, and without a goal
        *whitening_rows(verl, large, rounds),
        *group_rows(verl.algos, "L" in sizes, rounds),
        *call_rows(verl.algos, large, rounds),
        *sweep_rows(lambda given: verl.gae(given, whiten_too=False), rounds),
        *other_rows([size for size in ("M", "L") if size in sizes], rounds),
        *aggregate_rows(rounds),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="S,M,L,X")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    bounds = [*accuracy_rows(), *memory_rows(), growth_row(given.rounds)]
    print(bounds_table(bounds), "\n")
    found = measure(given.sizes.split(","), given.rounds)
    print(table(found))
    versions = {"python": sys.version.split()[0], "torch": torch.__version__}
    versions |= dict(pinned.split("==") for pinned in peers.PEERS)
    keep("estimators", {"versions": versions, "rounds": given.rounds, "rows": found, "bounds": bounds})


if __name__ == "__main__":
    main()
