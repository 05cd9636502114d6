"""`make test-trainers`: the client's adapters inside the real TRL and verl, in an environment of their own.

`.trainers/` sees the packages of the calling interpreter (torch, numpy, the server's own) and has the
trainers from PyPI beside them. verl is installed without what it depends on, but what its trainer imports.
"""

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".trainers"
TRL = ("trl==1.16.0", "transformers==5.24.0", "accelerate==1.15.0", "datasets==5.2.0")
VERL = ("verl==0.9.1",)
IMPORTED_BY_VERL = (
    "ray",
    "tensordict",
    "omegaconf",
    "hydra-core",
    "codetiming",
    "torchdata",
    "peft",
    "cachetools",
    "pillow",
)


def python() -> Path:
    """The interpreter of `.trainers/`, made and filled on first use."""
    executable = HOME / "bin" / "python"
    done = HOME / ".installed"
    if done.exists() and done.stat().st_mtime >= Path(__file__).stat().st_mtime:
        return executable
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
    purelib = next((HOME / "lib").glob("python*")) / "site-packages"
    seen = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *site.getsitepackages()}
    paths = [*sorted(seen), str(ROOT), str(ROOT / "client")]
    (purelib / "of_the_caller.pth").write_text("\n".join(paths) + "\n")
    install = [str(executable), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *TRL, *IMPORTED_BY_VERL], check=True)
    subprocess.run([*install, "--no-deps", *VERL], check=True)
    done.touch()
    return executable


def main() -> int:
    settings = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    # The trainers warn of much that is theirs; here it is no error.
    command = [str(python()), "-m", "pytest", "-W", "default", str(ROOT / "client" / "trainers")]
    return subprocess.run(command, env={**os.environ, **settings}, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
