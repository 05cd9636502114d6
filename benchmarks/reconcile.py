"""How long a reconciliation of 8,192 rollouts × 2,048 tokens takes, warm, on the threads that torch has.

    python benchmarks/reconcile.py [--rollouts 8192] [--tokens 2048]

prints a table and writes benchmarks/results/reconcile.json.
"""

import argparse
import time
from dataclasses import replace

import torch
from keeping import keep

from estimators import Batch, Request, estimate
from estimators.mistakes.shifting import shifted
from estimators.reconcile import Recorded, reconcile


def made(rollouts: int, tokens: int) -> Batch:
    draw = torch.Generator().manual_seed(7)
    lengths = torch.randint(tokens * 3 // 4, tokens + 1, (rollouts,), generator=draw)
    offsets = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))
    count = int(offsets[-1])
    scores = torch.rand(rollouts, generator=draw, dtype=torch.float64)
    rewards = torch.zeros(count)
    rewards[offsets[1:] - 1] = scores.float()
    return Batch(
        offsets,
        (torch.arange(count) // 64) % 5 != 0,
        torch.arange(rollouts) // 8,
        scores,
        token_level_rewards=rewards,
        values=torch.randn(count, generator=draw) * 0.3,
        index=torch.arange(rollouts),
    )


def recorded(batch: Batch, body: dict[str, object]) -> Recorded:
    found = estimate(batch, Request.from_dict(body)).advantages.float()
    per_token = found if found.shape[0] == batch.tokens else found.repeat_interleave(batch.lengths)
    return Recorded(per_token, True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rollouts", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=2048)
    args = parser.parse_args()
    batch = made(args.rollouts, args.tokens)
    dealt = replace(batch, group=torch.arange(batch.rollouts) % (batch.rollouts // 8))
    gae = recorded(batch, {"convention": "gae/verl", "params": {"gamma": 0.99, "lam": 0.95}})
    grpo = recorded(batch, {"convention": "grpo/verl"})
    draw = torch.Generator().manual_seed(5)
    assert batch.values is not None
    none = Recorded(torch.randn(batch.tokens, generator=draw), True)
    rollouts = Recorded(torch.randn(batch.rollouts, generator=draw), False)
    late = replace(batch, values=shifted(batch.values, batch, 1))
    off = recorded(late, {"convention": "gae/verl", "params": {"gamma": 0.99, "lam": 0.95}})
    few = made(16, 64)
    noise = Recorded(torch.randn(few.tokens, generator=torch.Generator().manual_seed(3)), True)
    some = made(1024, 1600)
    more = Recorded(torch.randn(some.tokens, generator=torch.Generator().manual_seed(3)), True)
    cases = {
        "noise, 16 × 64": (few, noise),
        "noise, 16 × 64, per rollout": (few, Recorded(noise.advantages[:16], False)),
        "noise, 1,024 × 1,600": (some, more),
        "gae/verl": (batch, gae),
        "grpo/verl": (batch, grpo),
        "grpo/verl, grouped by stride": (dealt, grpo),
        "gae/verl, values one token off": (batch, off),
        "noise": (batch, none),
        "noise, per rollout": (batch, rollouts),
    }
    rows = []
    for name, (of, numbers) in cases.items():
        reconcile(of, numbers)
        start, cpu = time.perf_counter(), time.process_time()
        found = reconcile(of, numbers)
        row = {"case": name, "seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        first = next(iter(found.candidates), None)  # nothing may be like noise
        rows.append(row | {"verdict": found.verdict, "mistake": None if first is None else first.mistake})
        told = " ".join(str(part) for part in (found.verdict, rows[-1]["mistake"]) if part)
        print(f"{name:32} {row['seconds']:6.2f} s, {row['cpu']:6.2f} s of CPU, {told}", flush=True)
    result = {
        "rollouts": args.rollouts,
        "tokens": args.tokens,
        "threads": torch.get_num_threads(),
        "rows": rows,
    }
    keep("reconcile", result)


if __name__ == "__main__":
    main()
