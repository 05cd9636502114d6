"""Single functions of source files that no package holds, each file pinned by its SHA-256.

`VANTAGE_PEERS_DIR` names a folder with the checkouts, `owner+name@commit/path/in/the/repository`. A file with
another hash stops the run.
"""

import ast
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

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
