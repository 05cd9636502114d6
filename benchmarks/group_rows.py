"""Estimators that compare rollouts with each other, beside verl's: lines for estimators_beside_peers.py."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from estimator_inputs import SIZES, Row, copy_of, padded
from estimator_table import row
from timing import Race, race

from estimators import ESTIMATORS, Request, estimate, factorize, group_statistics
from estimators.masked import on_tokens

FEW = "a few dozen microseconds of calls and of reading ids, which vary with what else the machine does"
CALL = (
    "summing rewards and spreading advantages over tokens is memory traffic on both sides, and the loop over "
    "groups a small part of verl's time at this many tokens to a group"
)


def verls_loop(algos: Any, scores: torch.Tensor, mask: torch.Tensor, ids: Any) -> object:
    """GRPO by verl's dictionary of groups; it writes into its scores, hence the copy."""
    return algos.compute_grpo_outcome_advantage(scores.clone(), mask, ids)


def group_rows(algos: Any, million: bool, rounds: int) -> list[Row]:
    """Mean and spread of each group, of one score per rollout; of a `million` rollouts too."""
    found = []
    for rollouts in (1024, 8192, *([1 << 20] if million else [])):
        random = np.random.default_rng(7)
        number = random.permutation(np.arange(rollouts) // 8)
        ids = np.array([f"{n:032x}-uid" for n in number], dtype=object)
        scores = torch.from_numpy(random.normal(size=(rollouts, 1))).float()
        mask, group = torch.ones(rollouts, 1, dtype=torch.long), torch.from_numpy(number)
        flat = scores.view(-1).double()
        contestants = {
            "ours": partial(group_statistics, flat, group),
            "strings": lambda f=flat, i=ids: group_statistics(f, factorize(i)[0]),
            "peer": partial(verls_loop, algos, scores, mask, ids),
            "vector": partial(algos.compute_grpo_vectorized_outcome_advantage, scores, mask, ids),
            "floor": copy_of(16 * rollouts),
        }
        # A million rollouts take verl's loop half a minute.
        result = race(contestants, rounds if rollouts < 1 << 20 else 1)
        for what, name, peer, least in (
            ("group statistics, integer ids", "ours", "peer", 800 if rollouts >= 8192 else 250),
            ("group statistics, string ids", "strings", "peer", 100 if rollouts < 1 << 20 else 35),
            ("group statistics, string ids", "strings", "vector", 2.2),
        ):
            line = row(what, f"{rollouts}", result, rollouts, peer, least, 0, FEW, ours=name)
            line |= {"unit": "rollout", "floors": None, "floors_at_most": None}
            line |= {"faster": result.ratio(peer, name)}
            line["peer"] = "verl's dict loop" if peer == "peer" else "verl's vectorised"
            found.append(line)
    return found


def call_rows(algos: Any, sizes: list[str], rounds: int) -> list[Row]:
    """From token rewards and string ids to one advantage on every token: what verl's functions do. And the
    same with the summaries of each rollout, which they do not make."""
    found = []
    for name, loop, vector, least in (
        ("grpo", algos.compute_grpo_outcome_advantage, algos.compute_grpo_vectorized_outcome_advantage, 6),
        ("rloo", algos.compute_rloo_outcome_advantage, algos.compute_rloo_vectorized_outcome_advantage, 8),
    ):
        for size in sizes:
            batch, given = padded(*SIZES[size], True)
            ids = np.array([f"{n:032x}-uid" for n in batch.group.tolist()], dtype=object)
            out = torch.empty(batch.tokens)
            request = Request.from_dict({"convention": f"{name}/verl", "precision": "float64"})

            def bare(batch: Any = batch, ids: Any = ids, out: Any = out, request: Any = request) -> object:
                grouped = replace(batch, group=factorize(ids)[0])
                made = ESTIMATORS[request.estimator].run(grouped, request.params, torch.float64)
                return on_tokens(made.advantages.float(), batch.response_mask, batch.lengths, out)

            def summed(batch: Any = batch, ids: Any = ids, out: Any = out, request: Any = request) -> object:
                made = estimate(replace(batch, group=factorize(ids)[0]), request)
                return on_tokens(made.advantages.float(), batch.response_mask, batch.lengths, out)

            arguments = (given["token_level_rewards"], given["response_mask"], ids)
            contestants = {
                "ours": bare, "summed": summed, "floor": copy_of(9 * batch.tokens),
                "peer": partial(loop, *arguments), "vector": partial(vector, *arguments),
            }  # fmt: skip
            found += _call_lines(name.upper(), size, race(contestants, rounds), batch.tokens, least)
    return found


def _call_lines(name: str, size: str, result: Race, tokens: int, least: float) -> list[Row]:
    goal = size in "ML"
    line = row(f"{name} call, string ids", size, result, tokens, "verl's dict loop", least, 2.5, CALL)
    line |= {} if goal else {"faster_at_least": None, "floors_at_most": None}
    vector = {"peer": "verl's vectorised", "faster": result.ratio("vector", "ours")}
    vector |= {"faster_at_least": 2 if goal else None, "floors_at_most": None}
    summed = row(
        f"{name} call, with summaries per rollout",
        size,
        result,
        tokens,
        "verl's dict loop",
        None,
        0,
        ours="summed",
    )
    return [line, line | vector, summed | {"floors_at_most": None}]
