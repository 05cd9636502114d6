"""Functions of frameworks that publish no package that holds them: single functions of source files, each
pinned by its SHA-256.

`VANTAGE_PEERS_DIR` names a folder with the checkouts, `owner+name@commit/path/in/the/repository`. Without
it, or where a file is missing, the report says that these frameworks were not compared; a file with another
hash stops the run.
"""

import ast
import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import peers
import torch
from agreement_batches import Padded
from agreement_frameworks import function
from agreement_pairs import Pair, Peer
from pinned_files import (
    NEMO,
    NEMO_MORE,
    OPEN_INSTRUCT,
    PRIME,
    PRIME_MAXRL,
    RLLM,
    RLLM_MORE,
    ROLL,
    SKYRL,
    SLIME,
    method,
    method_of,
    there,
)
from torch import Tensor

from estimators import Batch


def scored(given: Padded) -> Batch:
    """A batch whose rollouts have a reward each and no rewards of tokens."""
    nan = torch.isnan(given.scores)
    return replace(given.batch(), token_level_rewards=None, components={}, reward_nan=nan)


def by_group(formula: Callable[[Tensor], Any]) -> Peer:
    """A function of the scores of one group."""

    def call(given: Padded) -> Tensor:
        found, group = torch.zeros_like(given.scores), given.batch().group
        for number in range(int(group.max()) + 1):
            places = group == number
            found[places] = torch.as_tensor(formula(given.scores[places])).to(found)
        return found

    return call


def _matrix(given: Padded) -> bool:
    return given.size is not None and given.size > 1


def _skyrl(home: Path) -> list[Pair]:
    peers._stand_in("loguru")
    made = []
    for name, convention in (
        ("compute_grpo_outcome_advantage", "grpo/skyrl"),
        ("compute_rloo_outcome_advantage", "rloo/skyrl"),
        ("compute_maxrl_advantage", "maxrl/skyrl"),
    ):
        code = function(home / SKYRL, name, defaultdict=defaultdict)

        def theirs(given: Padded, code: Any = code) -> Tensor:
            found: Tensor = code(given.rewards, given.mask, given.index)[0]
            return found

        made.append(Pair(f"skyrl {name}", theirs, {"convention": convention}, by_float=True))
    code = function(home / SKYRL, "compute_grpo_outcome_advantage", defaultdict=defaultdict)

    def centred(given: Padded) -> Tensor:
        found: Tensor = code(given.rewards, given.mask, given.index, grpo_norm_by_std=False)[0]
        return found

    name = "skyrl compute_grpo_outcome_advantage, grpo_norm_by_std False"
    return [*made, Pair(name, centred, {"convention": "dr_grpo/skyrl"}, by_float=True)]


def _rllm(home: Path) -> list[Pair]:
    grpo = function(home / RLLM, "calculate_grpo_advantages_per_group", np=np)
    rloo = function(home / RLLM, "calculate_rloo_advantages_per_group", np=np)
    made = [
        Pair(
            "rllm grpo",
            by_group(lambda x: grpo(x.numpy())[0]),
            {"convention": "grpo/rllm"},
            scored,
            single=False,
        ),
        Pair(
            "rllm rloo",
            by_group(lambda x: rloo(x.numpy())[0]),
            {"convention": "rloo/rllm"},
            scored,
            single=False,
        ),
    ]
    for name, convention in (
        ("calculate_reinforce_plus_plus_baseline_advantages", "reinforce_plus_plus_baseline/rllm"),
        ("calculate_prpo_advantages", "batch_z/rllm"),
    ):
        code = function(home / RLLM_MORE, name, np=np)

        def theirs(given: Padded, code: Any = code) -> Tensor:
            found, group = torch.zeros_like(given.scores), given.batch().group
            places = [group == number for number in range(int(group.max()) + 1)]
            parts = code([given.scores[own].numpy() for own in places], None)[0]
            for own, part in zip(places, parts, strict=True):
                found[own] = torch.from_numpy(part)
            return found

        made.append(Pair(f"rllm {name}", theirs, {"convention": convention}, scored, single=False))
    return made


def _roll(home: Path) -> list[Pair]:
    norm = function(home / ROLL, "reward_norm")

    def grouped(given: Padded) -> Tensor:
        found: Tensor = norm(given.scores, given.size, {}, "group", "group")
        return found

    def whole(given: Padded) -> Tensor:
        found: Tensor = norm(given.scores, -1, {}, "batch", "batch")
        return found

    return [
        Pair("roll reward_norm group", grouped, {"convention": "grpo/roll"}, scored, _matrix),
        Pair(
            "roll reward_norm batch", whole, {"convention": "batch_z/roll"}, scored, lambda b: b.rollouts > 1
        ),
    ]


def _nemo(home: Path) -> list[Pair]:
    statistics = function(home / NEMO, "calculate_baseline_and_std_per_prompt")
    names = {"calculate_baseline_and_std_per_prompt": statistics}
    made = []
    for leave_out, normalise, convention, params in (
        (True, True, "grpo/nemo-loo", {}),
        (False, True, "grpo/nemo", {}),
        (True, False, "rloo/nemo", {}),
    ):
        code = method_of(home / NEMO_MORE, "GRPOAdvantageEstimator", "compute_advantage", **names)
        own = SimpleNamespace(use_leave_one_out_baseline=leave_out, normalize_rewards=normalise)

        def theirs(given: Padded, code: Any = code, own: Any = own) -> Tensor:
            found: Tensor = code(own, given.batch().group[:, None], given.scores, given.mask)
            return found[:, 0].float() if given.scores.dtype == torch.float32 else found[:, 0]

        name = f"nemo-rl grpo, leave-one-out {leave_out}, normalize_rewards {normalise}"
        # Its identity matrix is in single precision: double scores it does not take.
        made.append(Pair(name, theirs, {"convention": convention, "params": params}, scored, double=False))
    return made


def _slime(home: Path) -> list[Pair]:
    code = method(home / SLIME, "_post_process_rewards", defaultdict=defaultdict)
    made = []
    for std, convention in ((True, "grpo/slime"), (False, "dr_grpo/slime")):

        def theirs(given: Padded, std: bool = std) -> Tensor:
            args = SimpleNamespace(
                advantage_estimator="grpo", rewards_normalization=True, grpo_std_normalization=std,
                n_samples_per_prompt=given.size, rollout_batch_size=given.rollouts // (given.size or 1),
            )  # fmt: skip
            own = SimpleNamespace(custom_reward_post_process_func=None, args=args)
            samples = [SimpleNamespace(get_reward_value=lambda args, x=x: x) for x in given.scores.tolist()]
            return torch.tensor(code(own, samples)[1])

        pair = Pair(
            f"slime rewards, std {std}", theirs, {"convention": convention}, scored, _matrix, double=False
        )
        made.append(pair)
    return made


def _prime(home: Path) -> list[Pair]:
    made = []
    for name, convention in ((PRIME, "dr_grpo/prime-rl"), (PRIME_MAXRL, "maxrl/prime-rl")):
        code = method(
            home / name,
            "score_group",
            iter_trainable_traces=lambda episodes: ((None, each) for each in episodes),
            assign_advantages=lambda trace, value: setattr(trace, "advantage", value),
        )

        def formula(scores: Tensor, code: Any = code) -> list[float]:
            traces = [SimpleNamespace(reward=x) for x in scores.tolist()]
            asyncio.run(code(SimpleNamespace(length_penalty=None), traces))
            return [each.advantage for each in traces]

        file = name.rsplit("/", 1)[1]
        made.append(
            Pair(f"prime-rl {file}", by_group(formula), {"convention": convention}, scored, double=False)
        )
    return made


def _of_one_size(given: Padded) -> bool:
    return given.size is not None


def _open_instruct(home: Path) -> list[Pair]:
    tree = ast.parse((home / OPEN_INSTRUCT).read_text())
    bodies = [body for each in ast.walk(tree) if isinstance(body := getattr(each, "body", None), list)]
    said = [[ast.unparse(one).split(" = ")[0] for one in body] for body in bodies]
    place = next(i for i, names in enumerate(said) if "mean_grouped_rewards" in names)
    first = said[place].index("scores_per_prompt")
    code = compile(ast.Module(bodies[place][first : first + 6], []), OPEN_INSTRUCT, "exec")
    made = []
    for kind, convention in (("standard", "grpo/open-instruct"), ("centered", "dr_grpo/open-instruct")):

        def theirs(given: Padded, kind: str = kind) -> Tensor:
            config = SimpleNamespace(
                num_samples_per_prompt_rollout=given.size, advantage_normalization_type=kind
            )
            scope = {"np": np, "self": SimpleNamespace(config=config), "scores": given.scores.numpy()}
            exec(code, scope)
            return torch.from_numpy(scope["advantages"])

        name = f"open-instruct {kind}"
        made.append(Pair(name, theirs, {"convention": convention}, scored, _of_one_size, single=False))
    return made


def pairs() -> tuple[list[Pair], list[str]]:
    """Of all pinned functions; none, and why, where they are not there."""
    home, missing = there()
    if home is None:
        return [], missing
    every = (_skyrl, _rllm, _roll, _nemo, _slime, _prime, _open_instruct)
    return [pair for each in every for pair in each(home)], []
