"""The real advantage functions of other projects, in the benchmark's own virtual environment `.bench/`.

`reexec()` makes that environment if it is not there, installs the peers into it without what they depend on,
and runs the calling script again inside it, where this interpreter's packages (torch, numpy) are visible too.
What the advantage functions import and do not use (ray, tensordict, transformers, …) is an empty stand-in.
"""

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench"
PEERS = ("verl==0.9.1", "openrlhf==0.11.2", "torchrl==0.14.1", "trl==1.16.0")
INSIDE = "VANTAGE_BENCH_INSIDE"


def python() -> Path:
    """The interpreter of `.bench/`, made and filled on first use."""
    executable = BENCH / "bin" / "python"
    done = BENCH / f".installed-{'-'.join(PEERS).replace('=', '')}"
    if done.exists():
        return executable
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(BENCH)], check=True)
    purelib = next((BENCH / "lib").glob("python*")) / "site-packages"
    seen = {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    (purelib / "of_the_caller.pth").write_text("\n".join(sorted(seen)) + "\n")
    subprocess.run([str(executable), "-m", "pip", "install", "--quiet", "--no-deps", *PEERS], check=True)
    done.touch()
    return executable


def reexec() -> None:
    """Goes on in `.bench/` with one thread and huge pages for tensors; returns at once if already there."""
    if os.environ.get(INSIDE):
        return
    settings = {INSIDE: "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "THP_MEM_ALLOC_ENABLE": "1"}
    settings["PYTHONPATH"] = str(ROOT)
    os.execve(python(), [str(python()), *sys.argv], {**os.environ, **settings})


def _stand_in(name: str, **members: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__getattr__ = lambda attribute: MagicMock(name=f"{name}.{attribute}")  # type: ignore[method-assign] # PEP 562
    sys.modules.setdefault(name, module)


def _package(name: str, folder: Path, **members: Any) -> None:
    """The package without its `__init__`, so that its modules can be imported one by one."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    module.__dict__.update(members)
    sys.modules[name] = module


def verl() -> Any:
    """`verl.trainer.ppo.core_algos`, the module itself as published."""
    home = next(Path(path) / "verl" for path in sys.path if (Path(path) / "verl" / "trainer").is_dir())
    for name in ("ray", "tensordict", "transformers", "omegaconf"):
        _stand_in(name, TensorDict=dict, PreTrainedTokenizer=object, DictConfig=dict)
    for name in ("verl", "verl.utils", "verl.trainer", "verl.trainer.ppo"):
        _package(name, home.joinpath(*name.split(".")[1:]))
    _stand_in("verl.utils.device", get_device_name=lambda: "cpu", get_torch_device=MagicMock())
    for name in ("verl.trainer.config", "verl.workers.config"):
        _stand_in(name, AlgoConfig=dict, ActorConfig=dict)
    groupwise = importlib.import_module("verl.utils.groupwise")
    utils = sys.modules["verl.utils"]
    utils.__dict__.update(as_torch_index=groupwise.as_torch_index, group_mean_std=groupwise.group_mean_std)
    return importlib.import_module("verl.trainer.ppo.core_algos")
