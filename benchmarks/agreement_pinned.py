"""Functions of frameworks that publish no package that holds them: single functions of source files, each
pinned by its SHA-256.

`VANTAGE_PEERS_DIR` names a folder with the checkouts, `owner+name@commit/path/in/the/repository`. Without
it, or where a file is missing, the report says that these frameworks were not compared; a file with another
hash stops the run.
"""

import ast
import asyncio
import hashlib
import os
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
from torch import Tensor

from estimators import Batch

#: File below the folder -> SHA-256.
FILES = {
    f"{place}@{path}": digest
    for place, path, digest in (
        (
            "rllm-org+rllm",
            "9beb6e0f/rllm/trainer/algorithms/rl_algo.py",
            "cc35b5ba709a91df7bf54c01586ce564394d641ae91468ee8d48d304f7855964",
        ),
        (
            "rllm-org+rllm",
            "9beb6e0f/rllm/trainer/algorithms/advantage.py",
            "5b0e8e212f1ae892ef24383b6eb1ae7cf8f5bb8d52062f6ad2d6813fb97c48d8",
        ),
        (
            "NovaSky-AI+SkyRL",
            "a9564572/skyrl/backends/skyrl_train/utils/ppo_utils.py",
            "cb9d86f1ba8c6317ab567cbe4e456aa475e927501341641e3f57cd43a9bb947f",
        ),
        (
            "alibaba+ROLL",
            "8eb27cc2/roll/utils/functionals.py",
            "969d9fbc5afc896557c8834d1c35d60c259a31c9bc8db1f7d28bfce0c9396924",
        ),
        (
            "NVIDIA-NeMo+RL",
            "7ea279ab/nemo_rl/algorithms/utils.py",
            "4b9014d79b5e2ce3246d7cda7b367ae98e0cc32da583ae4538880ba12d4c988f",
        ),
        (
            "NVIDIA-NeMo+RL",
            "7ea279ab/nemo_rl/algorithms/advantage_estimator.py",
            "694e004dc8ff6f065e3259edd3172d6384424f849ba0278aa5bcece360139863",
        ),
        (
            "THUDM+slime",
            "624b824a/slime/ray/rollout.py",
            "a54dea5e8e3c2ce4791c97bec795b4d78a423aa9f4f8adc9f8705b1475eb5b4e",
        ),
        (
            "allenai+open-instruct",
            "e6c3044a/open_instruct/data_loader.py",
            "c1327cf4dd3ca964a698acfaedbeb2bb037f7484c1d2026f2f40a3862e328abd",
        ),
        (
            "PrimeIntellect-ai+prime-rl",
            "559b4477/src/prime_rl/orchestrator/algo/grpo.py",
            "7ef8ff7b7c640ae9e551354f8c9f82bc7510664efeef179ca7df812bf86d7c5f",
        ),
        (
            "PrimeIntellect-ai+prime-rl",
            "559b4477/src/prime_rl/orchestrator/algo/max_rl.py",
            "d128d53f51ccfdeca0bd41b7aa1a1af4764f11c338f461c6fe06f258ec751a87",
        ),
    )
}
RLLM, RLLM_MORE, SKYRL, ROLL, NEMO, NEMO_MORE, SLIME, OPEN_INSTRUCT, PRIME, PRIME_MAXRL = FILES


def there() -> tuple[Path | None, list[str]]:
    """The folder, if every file is in it, and what is missing. Raises ValueError where a hash differs."""
    named = os.environ.get("VANTAGE_PEERS_DIR")
    if not named:
        return None, ["VANTAGE_PEERS_DIR is not set"]
    missing = [name for name in FILES if not (Path(named) / name).is_file()]
    for name in FILES.keys() - set(missing):
        if hashlib.sha256((Path(named) / name).read_bytes()).hexdigest() != FILES[name]:
            raise ValueError(f"{name} in VANTAGE_PEERS_DIR is not the file that was pinned")
    return (None if missing else Path(named)), missing


def method(path: Path, name: str, **names: Any) -> Callable[..., Any]:
    """A method of the one class of a file that has it, as a function, hints left out."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = next(each for each in ast.walk(tree) if isinstance(each, kinds) and each.name == name)
    return _compiled(found, path, names)


def method_of(path: Path, owner: str, name: str, **names: Any) -> Callable[..., Any]:
    """The same of the class `owner`."""
    tree = ast.parse(path.read_text())
    body = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == owner).body
    found = next(each for each in body if isinstance(each, ast.FunctionDef) and each.name == name)
    return _compiled(found, path, names)


def _compiled(found: Any, path: Path, names: dict[str, Any]) -> Callable[..., Any]:
    found.decorator_list = []
    scope = {"torch": torch, **names}
    code = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), found], [])
    exec(compile(ast.fix_missing_locations(code), str(path), "exec"), scope)
    made: Callable[..., Any] = scope[found.name]
    return made


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
    centred = lambda given: code(given.rewards, given.mask, given.index, grpo_norm_by_std=False)[0]  # noqa: E731
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

        fits = lambda given: given.size is not None  # noqa: E731
        name = f"open-instruct {kind}"
        made.append(Pair(name, theirs, {"convention": convention}, scored, fits, single=False))
    return made


def pairs() -> tuple[list[Pair], list[str]]:
    """Of all pinned functions; none, and why, where they are not there."""
    home, missing = there()
    if home is None:
        return [], missing
    every = (_skyrl, _rllm, _roll, _nemo, _slime, _prime, _open_instruct)
    return [pair for each in every for pair in each(home)], []
