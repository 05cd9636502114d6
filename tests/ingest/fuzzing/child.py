"""`python -m tests.ingest.fuzzing.child SEED FIRST LAST STEP FOLDER`: damaged uploads, one after the other.

A line of JSON before each, {"begun": number}, and after it where something is wrong, {"number", "wrong"}. A
hang, or memory without end, ends the process: then the last line says at which number.
"""

import contextlib
import faulthandler
import json
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from tests.ingest.fuzzing.cases import case
from tests.ingest.fuzzing.judge import judge, take

#: Most memory of the process while it reads one upload, and of the readers of pickles.
MEMORY = 512 << 20
#: Processor seconds, and seconds however busy the machine is, after which a reading hangs.
SECONDS, HANG = 30, 400.0


def main(seed: int, first: int, last: int, step: int, folder: Path) -> None:
    warnings.simplefilter("error")
    limit = _used() + 4 * MEMORY  # address space: what threads reserve counts, so this only stops a flood
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGXCPU, chain=True)
    for number in range(first, last, step):
        _say({"begun": number})
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, resource.RLIM_INFINITY))
        faulthandler.dump_traceback_later(HANG, exit=True)
        if wrong := one(seed, number, folder):
            _say({"number": number, "wrong": wrong})
        faulthandler.cancel_dump_traceback_later()


def one(seed: int, number: int, folder: Path) -> list[str]:
    made = case(seed, number, folder)
    for path in folder.iterdir():
        path.unlink()
    _forget_peak()
    before = _peak()
    try:
        taken = take(made, folder)
        wrong = judge(made, taken, folder)
    except Exception:
        wrong = [traceback.format_exc(limit=-6)]
    if _peak() > MEMORY:
        wrong.append(f"needs {_peak() >> 20} MiB of memory, {before >> 20} MiB before")
    if len(list(folder.iterdir())) != len(made.files):
        wrong.append(f"left files behind: {sorted(path.name for path in folder.iterdir())}")
    return [f"{made.target} ({made.how}): {text}" for text in wrong]


def _used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _forget_peak() -> None:
    """Measure the peak from here on."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Most memory in bytes, of this process since it was asked to forget or of a child of it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    seed, first, last, step = (int(text) for text in sys.argv[1:5])
    main(seed, first, last, step, Path(sys.argv[5]))
