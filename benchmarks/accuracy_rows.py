"""How far single precision is from double, what an estimate needs of memory beside its inputs, and how time
grows with tokens: lines for estimators_beside_peers.py.

"error" is the largest of any advantage against the same in double precision; `at_most` is in the same unit.
"""

import math
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from aggregate_rows import moments_error
from estimator_inputs import SIZES, Row, padded

from estimators import Batch, Request, Whitening, estimate, group_statistics
from estimators.layout import layout_of
from estimators.recurrence import gae_packed
from estimators.tokens import whiten

#: Tokens that growth is measured between, and MiB beside inputs and outputs.
FROM, UNTIL, EXPONENT = 19, 24, 1.08
EXTRA_MIB = 32.0


def _line(what: str, size: str, error: float, at_most: float, why: str = "") -> Row:
    return {"what": what, "size": size, "error": error, "at_most": at_most, "why": why}


def gae_error(rollouts: int, width: int, lam: float, drift: float) -> Row:
    """Rewards around `drift`, so that sums grow with the length; a third of the tokens masked."""
    draw = torch.Generator().manual_seed(width)
    count = rollouts * width
    batch = Batch(
        torch.arange(rollouts + 1) * width,
        torch.rand(count, generator=draw) < 0.7,
        torch.arange(rollouts),
        torch.zeros(rollouts, dtype=torch.float64),
        token_level_rewards=torch.randn(count, generator=draw) * 0.1 + drift,
        values=torch.randn(count, generator=draw),
    )
    found = {
        precision: estimate(
            batch, Request.from_dict({"estimator": "gae", "params": {"lam": lam}, "precision": precision})
        ).advantages.double()
        for precision in ("float32", "float64")
    }
    error = float((found["float32"] - found["float64"]).abs().max())
    largest = float(found["float64"].abs().max())
    bound = 1e-6 * largest if lam == 1 else 2e-6 * max(1.0, largest)
    return _line(f"GAE, λ = {lam:g}, rewards around {drift:g}", f"{rollouts}×{width}", error, bound)


def group_error(offset: float = 1e6) -> Row:
    """Normalised by group mean and std, against the same scores in long doubles."""
    draw = torch.Generator().manual_seed(9)
    scores = (offset + 0.5 * torch.randn(8192, generator=draw, dtype=torch.float64)).float()
    group = torch.arange(8192) % 1024
    found = group_statistics(scores.double(), group)
    ours = (scores.double() - found.mean[group]) / (found.std(1)[group] + 1e-6)
    rows = scores.numpy().astype(np.longdouble).reshape(8, 1024)
    exact = (rows - rows.mean(0)) / (rows.std(0, ddof=1) + 1e-6)
    error = float(np.abs(ours.numpy() - exact.reshape(-1)).max())
    return _line(f"group statistics, scores around {offset:g}", "8192", error, 1e-5)


def whitening_error(scope: str) -> Row:
    draw = torch.Generator().manual_seed(5)
    batch, _ = padded(*SIZES["M"], True)
    values = torch.randn(batch.tokens, generator=draw) * 3 + 1
    setting = Whitening(scope, zero_masked=False)  # type: ignore[arg-type] # a Scope, from the literals
    single, double = whiten(values, batch, setting), whiten(values.double(), batch, setting)
    return _line(f"whitening, {scope}", "M", float((single - double).abs().max()), 5e-6)


def accuracy_rows() -> list[Row]:
    gae = [
        gae_error(4, width, lam, drift)
        for width in (512, 4096, 32768)
        for lam, drift in ((0.95, 0.0), (0.99, 0.01), (1.0, 0.0), (1.0, 0.01))
    ]
    return [*gae, group_error(), whitening_error("batch"), whitening_error("group"), moments_error()]


MEMORY = """
import re, sys
from pathlib import Path
sys.path[:0] = {folders!r}
import torch
torch.set_num_threads(1)
from accuracy_rows import work

def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

run, outputs = work({what!r})
Path("/proc/self/clear_refs").write_text("5")  # The peak starts anew at what is held now.
before = most()
run()
print(most() - before - outputs / 2**20)
"""


def work(what: str) -> tuple[partial[object], int]:
    """What is run at size L, and the bytes of what it gives."""
    rollouts, width = SIZES["L"]
    count = rollouts * width
    rewards, values = torch.zeros(count), torch.zeros(count)
    for part in (rewards, values):
        for piece in part.split(1 << 20):
            piece.normal_()
    mask = torch.ones(count, dtype=torch.bool)
    offsets = torch.arange(rollouts + 1) * width
    batch = Batch(offsets, mask, torch.arange(rollouts) // 8, torch.zeros(rollouts, dtype=torch.float64),
                  token_level_rewards=rewards, values=values)  # fmt: skip
    if what == "GAE":
        layout = layout_of(batch)

        def gae() -> object:
            out = (torch.empty(count), torch.empty(count))
            gae_packed(rewards, values, layout, 1.0, 0.95, out)
            return out

        return partial(gae), 8 * count
    if what == "whitening, batch":
        return partial(whiten, values, batch, Whitening("batch", zero_masked=False)), 4 * count
    convention = {"estimate gae/verl": "gae/verl", "estimate grpo/verl": "grpo/verl"}[what]
    request = Request.from_dict({"convention": convention, "precision": "float32"})
    # Advantages before and after whitening, and returns; or two numbers a rollout.
    return partial(estimate, batch, request), 12 * count if convention == "gae/verl" else 0


def memory_rows() -> list[Row]:
    """MiB beside inputs and outputs at size L, each in a process of its own."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    found = []
    for what in ("GAE", "whitening, batch", "estimate gae/verl", "estimate grpo/verl"):
        code = MEMORY.format(folders=folders, what=what)
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        found.append(_line(f"MiB beside inputs and outputs, {what}", "L", float(done.stdout), EXTRA_MIB))
    return found


def growth_row(rounds: int) -> Row:
    """The exponent of GAE's time, fitted over numbers of tokens that double; the least of the rounds each."""
    sizes, seconds = [1 << power for power in range(FROM, UNTIL + 1)], []
    made = []
    for size in sizes:
        batch, _ = padded(size // 2048, 2048, False)
        assert batch.token_level_rewards is not None and batch.values is not None
        out = (torch.empty(size), torch.empty(size))
        made.append(
            partial(gae_packed, batch.token_level_rewards, batch.values, layout_of(batch), 1.0, 0.95, out)
        )
    for each in made:
        each()
        took = []
        for _ in range(rounds):
            start = time.thread_time()
            each()
            took.append(time.thread_time() - start)
        seconds.append(min(took))
    slope = np.polyfit([math.log(size) for size in sizes], [math.log(each) for each in seconds], 1)[0]
    why = "small sizes stay in a cache that other work leaves free or not"
    return _line(
        "growth of GAE's time with tokens, exponent", f"2^{FROM} … 2^{UNTIL}", float(slope), EXPONENT, why
    )
