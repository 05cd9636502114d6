"""Writes the names of the frameworks' configuration options into tests/data/options/, one file each.

    python scripts/option_names.py --wheels DIR --mirror DIR

Wheels are downloaded into `--wheels` where they are not there. `--mirror` holds Git directories as
OWNER+NAME/repo; without it repositories are left out. `--check` only compares. Names only, read from the
source without running it: annotated fields of classes, arguments of `__init__`, flags of a command line, keys
of YAML. A test compares them with the tables of app/configured.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "options"


class File(NamedTuple):
    """Files of a source by pattern; of Python the classes (patterns) whose fields are options."""

    path: str
    classes: tuple[str, ...] = ("*",)


class Source(NamedTuple):
    """A wheel ("name==version") or a commit of a repository ("owner/name@commit")."""

    framework: str
    place: str
    files: tuple[File, ...]


SOURCES = (
    Source("verl", "verl==0.9.1", (
        File("verl/trainer/config/algorithm.py", ("AlgoConfig", "*Control*", "Filter*", "RolloutCorr*")),
        File("verl/workers/config/actor.py", ("ActorConfig", "PolicyLossConfig")),
        File("verl/workers/config/reward.py"),
        File("verl/trainer/config/data/legacy_data.yaml"),
        File("verl/trainer/config/reward/reward.yaml"),
    )),
    Source("easyr1", "hiyouga/EasyR1@b44b311", (
        File("verl/trainer/config.py"), File("verl/workers/reward/config.py"),
        File("verl/workers/actor/config.py", ("ActorConfig",)),
    )),
    Source("trl", "trl==1.16.0", (
        File("trl/trainer/grpo_config.py"), File("trl/trainer/rloo_config.py"),
    )),
    Source("trl", "trl==1.9.0", (File("trl/experimental/ppo/ppo_config.py"),)),
    Source("ms-swift", "ms-swift==4.6.0", (
        File("swift/arguments/rlhf_args.py"), File("swift/rlhf_trainers/args_mixin.py"),
    )),
    Source("openrlhf", "openrlhf==0.11.2", (File("*/openrlhf/cli/train_ppo_ray.py"),)),
    Source("nemo-rl", "NVIDIA-NeMo/RL@7ea279abf", (
        File("nemo_rl/algorithms/grpo.py", ("GRPOConfig", "Reward*", "MasterConfig")),
        File("nemo_rl/algorithms/advantage_estimator.py", ("AdvEstimatorConfig",)),
        File("nemo_rl/algorithms/loss/loss_functions.py", ("ClippedPGLossConfig",)),
        File("examples/configs/grpo_math_1B.yaml", ("grpo", "loss_fn")),
        File("examples/configs/ppo_math_1B.yaml", ("ppo", "grpo", "loss_fn")),
    )),
    Source("skyrl", "NovaSky-AI/SkyRL@a9564572e", (
        File("skyrl/train/config/config.py", (
            "AlgorithmConfig", "KL*", "DynamicSampling*", "OffPolicy*", "GeneratorConfig",
        )),
    )),
    Source("slime", "THUDM/slime@624b824a8", (File("slime/utils/arguments.py"),)),
    Source("areal", "areal==1.0.4", (
        File("areal/api/cli_args.py", ("PPOActorConfig", "NormConfig", "PPOCriticConfig", "RejectionSampl*")),
    )),
    Source("roll", "alibaba/ROLL@8eb27cc2", (
        File("roll/configs/base_config.py", ("PPOConfig", "TrainInfer*")),
        File("roll/pipeline/rlvr/rlvr_config.py"),
        File("roll/pipeline/agentic/agentic_config.py", ("AgenticConfig", "RewardNorm*", "EnvManager*")),
    )),
    Source("rllm", "rllm-org/rllm@9beb6e0f", (
        File("rllm/trainer/algorithms/config.py"), File("rllm/trainer/config/rllm/base.yaml"),
    )),
    Source("prime-rl", "PrimeIntellect-ai/prime-rl@559b44772", (
        File("packages/prime-rl-configs/src/prime_rl/configs/algorithm.py"),
        File("packages/prime-rl-configs/src/prime_rl/configs/orchestrator.py"),
        File("packages/prime-rl-configs/src/prime_rl/configs/trainer.py", ("*LossConfig", "TrainerConfig")),
    )),
    Source("open-instruct", "allenai/open-instruct@e6c3044aa", (
        File("open_instruct/grpo_utils.py", ("GRPOExperimentConfig",)),
        File("open_instruct/data_loader.py", ("StreamingDataLoaderConfig",)),
    )),
    Source("torchrl", "torchrl==0.14.1", (
        File("torchrl/objectives/llm/grpo.py", ("GRPOLoss", "MCAdvantage")),
        File("torchrl/objectives/value/advantages.py", ("GAE",)),
    )),
    Source("tinker", "tinker-cookbook==0.6.1", (File("tinker_cookbook/rl/train.py", ("*Config",)),)),
    Source("atropos", "NousResearch/atropos@296a0bc5", (
        File("atroposlib/envs/base.py", ("BaseEnvConfig",)), File("example_trainer/config.py"),
    )),
)  # fmt: skip


def texts(source: Source, wheels: Path, mirror: Path) -> Iterator[tuple[File, str]]:
    """The files' texts. Raises SystemExit where one is not there."""
    read = from_wheel if "==" in source.place else from_repository
    names, text_of = read(source.place, wheels if "==" in source.place else mirror)
    for file in source.files:
        found = [name for name in names if fnmatch(name, file.path)]
        if not found:
            sys.exit(f"{source.place} has no {file.path}")
        for name in found:
            yield file, text_of(name)


def from_wheel(place: str, wheels: Path) -> tuple[list[str], Callable[[str], str]]:
    """Names of the files, and what reads one."""
    name, version = place.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(wheels.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), place]
        subprocess.run(pip, check=True)
    archive = zipfile.ZipFile(next(wheels.glob(pattern)))
    return archive.namelist(), lambda path: archive.read(path).decode()


def from_repository(place: str, mirror: Path) -> tuple[list[str], Callable[[str], str]]:
    """Likewise."""
    name, commit = place.split("@")
    git = ["git", "-C", str(mirror / name.replace("/", "+") / "repo")]

    def said(*words: str) -> str:
        return subprocess.run([*git, *words], check=True, capture_output=True, text=True).stdout

    listed = said("ls-tree", "-r", "--name-only", commit).splitlines()
    return listed, lambda path: said("show", f"{commit}:{path}")


def options(file: File, text: str) -> Iterator[str]:
    if file.path.endswith(".yaml"):
        yield from of_yaml(file, text)
        return
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            flags = [each.value for each in node.args if isinstance(each, ast.Constant)]
            yield from (flag.lstrip("-").replace("-", "_") for flag in flags if str(flag).startswith("--"))
        if isinstance(node, ast.ClassDef) and any(fnmatch(node.name, each) for each in file.classes):
            yield from of_class(node)


def of_class(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            yield from (one.arg for one in (*each.args.args[1:], *each.args.kwonlyargs))


def of_yaml(file: File, text: str) -> Iterator[str]:
    """Keys; with class patterns other than "*" those under the top-level keys of that name."""
    wanted = True
    for line in text.splitlines():
        found = re.match(r"( *)([A-Za-z_][\w.-]*):", line)
        if found is None:
            continue
        if not found[1]:
            wanted = any(fnmatch(found[2], each) for each in file.classes)
        if wanted:
            yield found[2]


def lists(wheels: Path, mirror: Path | None) -> dict[str, dict[str, list[str]]]:
    """Framework -> where from -> names; without a mirror only those of wheels."""
    made: dict[str, dict[str, list[str]]] = {}
    for source in SOURCES:
        if mirror is None and "==" not in source.place:
            continue
        read = texts(source, wheels, mirror or wheels)
        names = {name for file, text in read for name in options(file, text)}
        made.setdefault(source.framework, {})[source.place] = sorted(
            each for each in names if each[:1] != "_"
        )
    return made


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--wheels", type=Path, required=True)
    asked.add_argument("--mirror", type=Path, help="left out: only the options of wheels")
    asked.add_argument("--check", action="store_true", help="only say which lists differ")
    given = asked.parse_args()
    given.wheels.mkdir(parents=True, exist_ok=True)
    differ = []
    for framework, places in lists(given.wheels, given.mirror).items():
        path = TARGET / f"{framework}.json"
        text = json.dumps(places, indent=1) + "\n"
        if not path.exists() or path.read_text() != text:
            differ.append(path.name)
            if not given.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    said = "differ" if given.check else "written"
    sys.stdout.write(f"{said}: {', '.join(differ) or 'none'}\n")
    if given.check and differ:
        sys.exit(1)


if __name__ == "__main__":
    main()
