"""The estimators on a GPU, in one table and a few minutes: needs torch and this repository, nothing else.

    python benchmarks/gpu_check.py                     on the first CUDA device
    python benchmarks/gpu_check.py --device cpu --tiny any machine: whether the script works, no figures

Times are medians over CUDA events. "floor" is a copy of the bytes that have to be read and written at least;
"loop" is the recursion of GAE over the steps as verl publishes it, written out below. Writes
benchmarks/results/gpu.json, which docs/performance.md is made from.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import torch  # noqa: E402 -- the repository's root has to be on the path first
from estimator_inputs import SIZES, copy_of, masks  # noqa: E402
from torch import Tensor  # noqa: E402

from estimators import Batch, Whitening, group_statistics  # noqa: E402
from estimators.layout import CHUNK, Layout, layout_of  # noqa: E402
from estimators.recurrence import decay_matrix, gae_packed  # noqa: E402
from estimators.sweep import points_of, sweep  # noqa: E402
from estimators.tokens import whiten  # noqa: E402

GAMMA, LAM = 1.0, 0.95
TINY = {"S": (4, 64), "M": (8, 256), "L": (16, 128), "X": (2, 1024)}
#: Goals, in floors: the library as it is, and the same recurrence compiled.
EAGER, COMPILED, LOOPS = 6.0, 3.5, 300.0
GRID = {"gamma": [0.9, 0.95, 0.98, 0.99, 1.0], "lam": [0.0, 0.5, 0.9, 0.95, 1.0]}
Row = dict[str, Any]


class Clock:
    """Median seconds of a call on the device."""

    def __init__(self, device: torch.device, repeats: int) -> None:
        self.device, self.repeats = device, repeats

    def __call__(self, work: Callable[[], object], repeats: int | None = None) -> float:
        work()
        return statistics.median(self._once(work) for _ in range(repeats or self.repeats))

    def _once(self, work: Callable[[], object]) -> float:
        if self.device.type != "cuda":
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) / 1e3


def made(size: tuple[int, int], half: bool, device: torch.device) -> tuple[Batch, Tensor, Tensor]:
    """A batch of rollouts × tokens with its rewards and values `[B, T]`."""
    draw = torch.Generator().manual_seed(7)
    rewards, values = (torch.randn(*size, generator=draw).to(device) for _ in range(2))
    batch = Batch(
        (torch.arange(size[0] + 1) * size[1]).to(device),
        masks(*size, half).view(-1).to(device),
        (torch.arange(size[0]) // 8).to(device),
        torch.zeros(size[0], dtype=torch.float64, device=device),
        token_level_rewards=rewards.view(-1),
        values=values.view(-1),
    )
    return batch, rewards, values


def loop(rewards: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Advantages `[B, T]` step by step from the end; masked steps carry what comes behind them."""
    carried = following = torch.zeros_like(rewards[:, 0])
    found = []
    for step in range(rewards.shape[1] - 1, -1, -1):
        here = mask[:, step]
        delta = rewards[:, step] + GAMMA * following - values[:, step]
        now = delta + GAMMA * LAM * carried
        following = values[:, step] * here + (1 - here) * following
        carried = now * here + (1 - here) * carried
        found.append(carried)
    return torch.stack(found[::-1], dim=1)


def constants(width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What the recurrence multiplies by: inside chunks, over the totals of chunks, and back into them."""
    step = GAMMA * LAM
    inside = decay_matrix(CHUNK, step, torch.float32, device)
    over = decay_matrix(width // CHUNK, step**CHUNK, torch.float32, device, behind=1)
    back = step ** torch.arange(CHUNK, 0, -1, dtype=torch.float64)
    return inside, over, back.float().to(device)


def written_out(
    rewards: Tensor, values: Tensor, inside: Tensor, over: Tensor, back: Tensor
) -> tuple[Tensor, Tensor]:
    """The library's recurrence on full rows `[B, T]` without buffers, which is what a compiler can fuse."""
    rows, width = rewards.shape
    mixed = torch.lerp(values, rewards, LAM)
    solved = (mixed.view(-1, CHUNK) @ inside).view(rows, width // CHUNK, CHUNK)
    behind = solved[:, :, 0] @ over
    carried = (solved + behind.unsqueeze(2) * back).view(rows, width)
    returns = rewards + GAMMA * torch.nn.functional.pad(carried[:, 1:], (0, 1))
    return returns - values, returns


def packed(batch: Batch, layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    assert batch.token_level_rewards is not None and batch.values is not None
    r, v = (layout.pack(part, dtype) for part in (batch.token_level_rewards, batch.values))
    return r, v, (torch.empty_like(r), torch.empty_like(r))


def line(what: str, size: str, seconds: float, per: int, floor: float | None, most: float | None) -> Row:
    floors = None if floor is None else seconds / floor
    row = {"what": what, "size": size, "us": seconds * 1e6, "ps": seconds / per * 1e12, "floors": floors}
    return row | {"floors_at_most": None if size == "S" else most, "faster": None, "faster_at_least": None}


def gae_rows(clock: Clock, sizes: dict[str, tuple[int, int]], compile_too: bool) -> list[Row]:
    rows = []
    for name, size in sizes.items():
        for half in (False, True):
            batch, rewards, values = made(size, half, clock.device)
            layout, valid = layout_of(batch), int(batch.response_mask.sum())
            r, v, out = packed(batch, layout, torch.float32)
            floor = clock(copied((16 if half else 17) * valid, clock.device))
            eager = clock(partial(gae_packed, r, v, layout, GAMMA, LAM, out))
            kind = "packed, half valid" if half else "full"
            row = line(f"GAE, {kind}", name, eager, valid, floor, EAGER)
            mask = batch.response_mask.view(size).float()
            row |= {"faster": clock(partial(loop, rewards, values, mask), 1) / eager}
            rows.append(row | {"error": error(batch, layout, out), "faster_at_least": LOOPS * (name == "M")})
            if compile_too and not half:
                given = (rewards, values, *constants(size[1], clock.device))
                function = torch.compile(written_out, fullgraph=True, dynamic=False)
                row = line(
                    "GAE, full, compiled", name, clock(partial(function, *given)), valid, floor, COMPILED
                )
                fused = function(*given)
                rows.append(row | {"error": error(batch, layout, (fused[0].view(-1), fused[1].view(-1)))})
    return rows


def copied(amount: float, device: torch.device) -> Callable[[], object]:
    if device.type != "cuda":
        return copy_of(amount)
    source = torch.ones(max(1, int(amount / 8)), device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def error(batch: Batch, layout: Layout, out: tuple[Tensor, Tensor]) -> float:
    """Largest error of the advantages against double precision, in units of max(1, max|A|)."""
    r, v, exact = packed(batch, layout, torch.float64)
    gae_packed(r, v, layout, GAMMA, LAM, exact)
    kept = layout.filled if layout.filled is not None else slice(None)
    right = exact[0][kept]
    return float((out[0][kept].double() - right).abs().max()) / max(1.0, float(right.abs().max()))


def other_rows(clock: Clock, sizes: dict[str, tuple[int, int]]) -> list[Row]:
    rows = []
    batch, _, values = made(sizes["L"], False, clock.device)
    flat, out = values.view(-1), torch.empty_like(values.view(-1))
    floor = clock(copied(14 * batch.tokens, clock.device))
    for scope in ("batch", "group"):
        setting = Whitening(scope, zero_masked=False)  # type: ignore[arg-type] # a Scope, from the literals
        seconds = clock(partial(whiten, flat, batch, setting, out=out))
        rows.append(line(f"whitening, {scope}", "L", seconds, batch.tokens, floor, None))
    for rollouts in (8192, 1 << 20) if clock.device.type == "cuda" else (64,):
        scores = torch.randn(rollouts, dtype=torch.float64, device=clock.device)
        group = (torch.arange(rollouts) // 8)[torch.randperm(rollouts)].to(clock.device)
        seconds = clock(partial(group_statistics, scores, group))
        rows.append(line("group statistics", f"{rollouts}", seconds, rollouts, None, None))
    batch, _, _ = made(sizes["M"], True, clock.device)
    points = points_of({"estimator": "gae", "precision": "float32"}, GRID)
    seconds = clock(lambda: list(sweep(batch, points)), 3)
    each = int(batch.response_mask.sum()) * len(points)
    rows.append(line("sweep of 25 (γ, λ), summaries included", "M", seconds, each, None, None))
    return rows


def table(rows: list[Row]) -> str:
    lines = [
        "| what | size | µs | ps a token | floors | at most | times the loop | error |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        over = row["floors_at_most"] and row["floors"] and row["floors"] > row["floors_at_most"]
        short = row["faster_at_least"] and row["faster"] < row["faster_at_least"]
        cells = [row["what"], row["size"], f"{row['us']:.1f}", f"{row['ps']:.1f}"]
        cells += ["–" if row["floors"] is None else f"{row['floors']:.2f}" + (" (over)" if over else "")]
        cells += [f"{row['floors_at_most'] or '–'}"]
        cells += [f"{row['faster']:.0f}" + (" (short)" if short else "") if row["faster"] else "–"]
        cells += [f"{row['error']:.1e}" if "error" in row else "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that the script works")
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("No CUDA device: try --device cpu --tiny to see that the script works.")
    torch.set_float32_matmul_precision("highest")
    torch._dynamo.config.cache_size_limit = 64
    sizes = TINY if given.tiny else SIZES
    clock = Clock(device, 3 if given.tiny else 20)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    rows = [*gae_rows(clock, sizes, not given.no_compile), *other_rows(clock, sizes)]
    peak = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    print(f"{name}, torch {torch.__version__}, γ {GAMMA}, λ {LAM}, float32\n\n{table(rows)}")
    print(f"\nlargest memory allocated: {peak:.0f} MiB" if peak else "\nnot a GPU: no figures")
    if device.type == "cuda" and not given.tiny:
        (HERE / "results").mkdir(exist_ok=True)
        found = {"device": name, "torch": torch.__version__, "rows": rows, "peak_mib": peak}
        (HERE / "results" / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
