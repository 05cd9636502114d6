"""What a job took goes back to the system."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from pathlib import Path
from app.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

give_back()
before = resident()
rows = [bytes(20_000) for _ in range(20_000)]  # from the heap, below the size that is mapped alone
kept = rows[-1]  # at its end: without a word nothing below it is given back
held = resident()
del rows
give_back()
print(held - before, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_below_what_is_still_held_is_given_back() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=root
    )
    held, left = map(int, done.stdout.split())
    assert held > 300 << 20
    assert left < held / 10
