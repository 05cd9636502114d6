"""The estimators beside verl's real functions and beside a copy of the same bytes, on one thread.

    python benchmarks/estimators_beside_peers.py [--sizes S,M,L,X] [--rounds 7]

prints a table and writes benchmarks/results/estimators.json. Sizes are rollouts × tokens. "half valid" has
ragged ends and tool output masked in runs. Times are in single precision, as in training; double precision,
the default for answers, has rows of its own. `rows()` gives the last table to whoever assembles a document.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import peers

if __name__ == "__main__":
    peers.reexec()

import numpy as np
import torch
from estimator_inputs import SIZES, Row, copy_of, padded
from estimator_table import row, table
from sweep_rows import sweep_rows
from timing import race

from estimators import Batch, Request, Whitening, estimate, factorize, group_statistics
from estimators.layout import layout_of
from estimators.masked import on_tokens
from estimators.recurrence import gae_packed
from estimators.tokens import whiten
from estimators.whitening import W_VERL

RESULTS = Path(__file__).parent / "results" / "estimators.json"


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
            found.append(row(name, size, result, valid, "verl's loop", least, 5.5 if half else 4.5))
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
        found.append(row(name, size, result, batch.tokens, "verl's function", least.get(size), 6.5))
    return found


def whole_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    """`estimate` from the batch to advantages, returns and summaries, beside verl's whole function."""
    found = []
    for size in sizes:
        for half in (False, True):
            for precision in ("float32", "float64"):
                batch, given = padded(*SIZES[size], half)
                request = Request.from_dict(
                    {"convention": "gae/verl", "params": {"lam": 0.95}, "precision": precision}
                )
                tokens = batch.tokens
                result = race(
                    {
                        "ours": lambda batch=batch, request=request: estimate(batch, request),
                        "peer": verl.gae(given, whiten_too=True),
                        "floor": copy_of(26 * tokens),
                    },
                    rounds,
                )
                name = f"estimate gae/verl, {'half valid' if half else 'full'}, {precision}"
                line = row(name, size, result, tokens, "verl's function", None, 0)
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
                row(f"whitening alone, {scope}", size, result, batch.tokens, "masked_whiten", least, most)
            )
    return found


def verls_loop(verl: Any, scores: torch.Tensor, mask: torch.Tensor, ids: Any) -> object:
    """GRPO by verl's dictionary of groups; it writes into its scores, hence the copy."""
    return verl.algos.compute_grpo_outcome_advantage(scores.clone(), mask, ids)


def group_rows(verl: Verl, rounds: int) -> list[Row]:
    found = []
    for rollouts in (1024, 8192):
        random = np.random.default_rng(7)
        number = random.permutation(np.arange(rollouts) // 8)
        ids = np.array([f"{n:032x}-uid" for n in number], dtype=object)
        scores = torch.from_numpy(random.normal(size=(rollouts, 1))).float()
        mask, group = torch.ones(rollouts, 1, dtype=torch.long), torch.from_numpy(number)
        flat = scores.view(-1).double()
        loop = partial(verls_loop, verl, scores, mask, ids)
        contestants = {
            "ours": lambda f=flat, g=group: group_statistics(f, g),
            "strings": lambda f=flat, i=ids: group_statistics(f, factorize(i)[0]),
            "peer": loop,
            "vector": lambda s=scores, m=mask, i=ids: verl.algos.compute_grpo_vectorized_outcome_advantage(
                s, m, i
            ),
            "floor": copy_of(16 * rollouts),
        }
        result = race(contestants, rounds)
        for what, name, peer, least in (
            ("group statistics, integer ids", "ours", "peer", 800 if rollouts >= 8192 else 250),
            ("group statistics, string ids", "strings", "peer", 100),
            ("group statistics, string ids", "strings", "vector", 2.2),
        ):
            line = row(what, f"{rollouts}", result, rollouts, peer, least, 0)
            line |= {"ns": result.median(name) / rollouts * 1e9, "unit": "rollout", "floors": None}
            line |= {"floors_at_most": None, "faster": result.ratio(peer, name)}
            line["peer"] = "verl's dict loop" if peer == "peer" else "verl's vectorised"
            found.append(line)
    return found


def grpo_rows(verl: Verl, sizes: list[str], rounds: int) -> list[Row]:
    """From token rewards and string ids to one advantage on every token."""
    found = []
    request = Request.from_dict({"convention": "grpo/verl", "precision": "float64"})
    for size in sizes:
        batch, given = padded(*SIZES[size], True)
        ids = np.array([f"{n:032x}-uid" for n in batch.group.tolist()], dtype=object)
        out = torch.empty(batch.tokens)
        arguments = (given["token_level_rewards"], given["response_mask"], ids)

        def ours(batch: Batch = batch, ids: Any = ids, out: torch.Tensor = out) -> object:
            grouped = replace(batch, group=factorize(ids)[0])
            advantages = estimate(grouped, request).advantages.float()
            return on_tokens(advantages, batch.response_mask, batch.lengths, out)

        result = race(
            {
                "ours": ours,
                "peer": lambda a=arguments: verl.algos.compute_grpo_outcome_advantage(*a),
                "vector": lambda a=arguments: verl.algos.compute_grpo_vectorized_outcome_advantage(*a),
                "floor": copy_of(9 * batch.tokens),
            },
            rounds,
        )
        line = row("GRPO call, string ids", size, result, batch.tokens, "verl's dict loop", 6, 2.5)
        found.append(line if size in "ML" else line | {"floors_at_most": None, "faster_at_least": None})
        vector = {"peer": "verl's vectorised", "faster": result.ratio("vector", "ours"), "faster_at_least": 2}
        found.append(found[-1] | vector | {"faster_at_least": 2 if size in "ML" else None})
    return found


def rows() -> list[Row]:
    """The lines of the last run. Raises FileNotFoundError where there was none."""
    found: list[Row] = json.loads(RESULTS.read_text())["rows"]
    return found


def measure(sizes: list[str], rounds: int = 7) -> list[Row]:
    """Every line of the table; `faster` is against the peer, `floors` in copies of the same bytes."""
    torch.set_num_threads(1)
    verl = Verl()
    large = [size for size in sizes if size != "S"]
    return [
        *gae_rows(verl, sizes, rounds),
        *whitened_rows(verl, sizes, rounds),
        *whole_rows(verl, sizes, min(rounds, 3)),  # four times as many as the others, and without a goal
        *whitening_rows(verl, large, rounds),
        *group_rows(verl, rounds),
        *grpo_rows(verl, sizes, rounds),
        *sweep_rows(lambda given: verl.gae(given, whiten_too=False), rounds),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="S,M,L,X")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found = measure(given.sizes.split(","), given.rounds)
    print(table(found))
    versions = {"python": sys.version.split()[0], "torch": torch.__version__}
    versions |= dict(pinned.split("==") for pinned in peers.PEERS)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"versions": versions, "rounds": given.rounds, "rows": found}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
