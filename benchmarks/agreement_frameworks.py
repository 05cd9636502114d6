"""The frameworks' own code, as published: modules where they can be imported alone, statements of a method
where the maths stands in the middle of it."""

import ast
import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peers
import torch


def home(package: str) -> Path:
    """The folder of an installed package."""
    return next(Path(path) / package for path in sys.path if (Path(path) / package / "__init__.py").is_file())


def function(path: Path, name: str, **names: Any) -> Callable[..., Any]:
    """One top-level function of a file, run with `names` as its globals, decorators and hints left out."""
    tree = ast.parse(path.read_text())
    found = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
    found.decorator_list = []
    scope = {"torch": torch, **names}
    code = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), found], [])
    exec(compile(ast.fix_missing_locations(code), str(path), "exec"), scope)
    made: Callable[..., Any] = scope[name]
    return made


def statements(path: Path, method: str, first: str, last: str) -> Any:
    """Compiled: the statements of a method from the one that sets `first` to the last that sets `last`."""
    tree = ast.parse(path.read_text())
    body = next(
        each.body for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == method
    )
    starts = [i for i, each in enumerate(body) if first in _targets(each)]
    ends = [i for i, each in enumerate(body) if last in _targets(each) and i >= starts[0]]
    end = next(i for i in reversed(ends) if "nan_to_num" in ast.unparse(body[i]))
    return compile(ast.Module(body[starts[0] : end + 1], []), str(path), "exec")


def _targets(node: ast.stmt) -> set[str]:
    if not isinstance(node, ast.Assign):
        return set()
    return {each.id for each in node.targets if isinstance(each, ast.Name)}


class Trl:
    """`GRPOTrainer` and `RLOOTrainer`: the statements between rewards and advantages."""

    def __init__(self) -> None:
        folder = home("trl") / "trainer"
        self.nanstd = function(folder / "utils.py", "nanstd")
        method = "_generate_and_score_completions"
        self.code = {
            name: statements(folder / f"{name}_trainer.py", method, "unscorable_mask", "advantages")
            for name in ("grpo", "rloo")
        }

    def advantages(self, trainer: str, rewards: torch.Tensor, size: int, **settings: Any) -> torch.Tensor:
        """`rewards` `[B, functions]`, NaN where a function gave None."""
        tokens = settings.pop("tokens", {})
        own = SimpleNamespace(
            reward_weights=settings.pop("reward_weights", torch.ones(rewards.shape[1])),
            reward_funcs=[None] * rewards.shape[1],
            **settings,
        )
        scope: dict[str, Any] = {
            "torch": torch, "self": own, "device": "cpu", "nanstd": self.nanstd, "num_generations": size,
            "rewards_per_func": rewards, "mode": "train", "gather": lambda value: value, **tokens,
        }  # fmt: skip
        exec(self.code[trainer], scope)
        found: torch.Tensor = scope["advantages"]
        return found


class OpenRlhf:
    """`RemoteExperienceMaker` without what is distributed."""

    def __init__(self) -> None:
        folder = home("openrlhf")
        for name in ("ray", "deepspeed", "transformers", "tqdm"):
            peers._stand_in(name)
        for name in ("openrlhf", "openrlhf.models", "openrlhf.trainer", "openrlhf.trainer.ppo_utils",
                     "openrlhf.utils", "openrlhf.trainer.ray"):  # fmt: skip
            peers._package(name, folder.joinpath(*name.split(".")[1:]))
        peers._stand_in("openrlhf.utils.logging_utils", init_logger=logging.getLogger)
        peers._stand_in("openrlhf.trainer.ray.launcher")
        peers._stand_in("openrlhf.utils.seqlen_balancing")
        peers._stand_in("openrlhf.trainer.ppo_utils.experience", Experience=object)
        logging.getLogger("openrlhf").setLevel(logging.ERROR)
        self.module = importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker")
        self.kl = importlib.import_module("openrlhf.models.utils").compute_approx_kl

    def run(self, estimator: str, given: Any, size: int, kl: torch.Tensor, **config: Any) -> Any:
        """The experience with advantages and returns; rows in two experiences, as micro-batches are."""
        args = SimpleNamespace(
            algo=SimpleNamespace(
                advantage=SimpleNamespace(
                    estimator=estimator,
                    gamma=config.get("gamma", 1.0),
                    lambd=config.get("lambd", 1.0),
                    no_std_norm=config.get("no_std_norm", False),
                )
            ),
            rollout=SimpleNamespace(n_samples_per_prompt=size, max_new_tokens=config.get("max_new_tokens")),
            reward=SimpleNamespace(
                clip_range=config.get("clip_range", (-10.0, 10.0)),
                overlong_buffer_len=config.get("overlong_buffer_len"),
                overlong_penalty_factor=config.get("overlong_penalty_factor", 1.0),
                stop_properly_penalty_coef=config.get("stop_properly_penalty_coef"),
            ),
        )
        maker = object.__new__(self.module.RemoteExperienceMaker)
        maker.strategy = SimpleNamespace(args=args)
        maker.advantage_estimator = estimator
        maker.kl_ctl = SimpleNamespace(value=config.get("kl_coef", 0.0))
        half = (given.rollouts + 1) // 2
        cuts = [part for part in ((0, half), (half, given.rollouts)) if part[0] < part[1]]
        made = [
            SimpleNamespace(
                index=list(range(a, b)), rewards=given.scores[a:b].clone(), kl=kl[a:b], info={},
                values=given.values[a:b], action_mask=given.mask[a:b], truncated=given.truncated[a:b],
                response_length=reach(given.mask[a:b]),
            )
            for a, b in cuts
        ]  # fmt: skip
        done = maker.compute_advantages_and_returns(made)
        return tuple(torch.cat([getattr(each, name) for each in done]) for name in ("advantages", "returns"))


def reach(mask: torch.Tensor) -> torch.Tensor:
    """Tokens from the first unmasked one to the last, `[B]`, as OpenRLHF's generator counts them."""
    places = torch.arange(1, mask.shape[1] + 1) * (mask > 0)
    first = torch.where(places > 0, places, mask.shape[1] + 1).amin(1)
    return (places.amax(1) - first + 1).clamp(min=0)


class TorchRl:
    """`generalized_advantage_estimate` and the standardisation by group."""

    def __init__(self) -> None:
        folder = home("torchrl") / "objectives" / "value"
        self.gae = function(folder / "functional.py", "generalized_advantage_estimate", SHAPE_ERR="shapes")
        self.by_group = function(folder / "advantages.py", "_standardize_by_group", Tensor=torch.Tensor)
