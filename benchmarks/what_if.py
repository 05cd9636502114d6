"""What if λ were another: how long until the answer for a batch of a million tokens is there?

A real `vantage serve` with its worker; one `POST /batches/{id}/estimates?wait=…` after the other, each of a
setting that was not asked for before, from the request to the summary in its answer. Writes
benchmarks/results/what_if.json.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import server
from keeping import keep

WAIT = {"wait": 60}
#: What is asked, with k counting up: another λ, the same in single precision, another ε of groups.
QUESTIONS: dict[str, Any] = {
    "gae/verl, another λ": lambda k: {"convention": "gae/verl", "params": {"lam": 0.5 + k / 1000}},
    "gae/verl in single precision": lambda k: {
        "convention": "gae/verl", "precision": "float32", "params": {"lam": 0.5 + k / 1000},
    },
    "grpo/verl, another ε": lambda k: {"convention": "grpo/verl", "params": {"epsilon": 1e-6 * (k + 2)}},
}  # fmt: skip


def write_file(path: Path, rollouts: int, tokens: int, group: int = 8) -> None:
    """Rollouts of one length with rewards and values per token, a fifth of them masked."""
    random = np.random.default_rng(11)
    with open(path, "wb") as file:
        for number in range(rollouts):
            reward = float(random.random())
            row = {
                "step": 1,
                "group_id": f"g{number // group}",
                "prompt": f"prompt {number // group}",
                "reward": reward,
                "response": "x" * tokens,
                "response_ids": random.integers(0, 150_000, tokens),
                "response_mask": ((np.arange(tokens) // 64) % 5 != 4).astype(np.int64),
                "token_level_rewards": np.r_[np.zeros(tokens - 1), reward],
                "values": random.normal(size=tokens).astype(np.float32).astype(np.float64),
            }
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def uploaded(client: httpx.Client, path: Path) -> str:
    """The batch's id, once its default estimates are done too."""
    answer = client.post("/uploads", params={"filename": path.name, "wait": 60}, content=path.read_bytes())
    assert answer.is_success, answer.text
    made = answer.json()
    while made["state"] in ("queued", "running"):
        time.sleep(0.2)  # it may take longer than the API waits
        made = client.get(f"/uploads/{made['id']}").json()
    assert made["state"] == "succeeded", made
    batch = str(made["batches"][0]["id"])
    while True:
        estimates = client.get(f"/batches/{batch}/estimates").json()["items"]
        if estimates and all(each["state"] not in ("queued", "running") for each in estimates):
            return batch
        time.sleep(0.2)  # begun by the ingest, so there is no request of ours to wait in


def asked(client: httpx.Client, batch: str, body: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Seconds from the request to its answer, and what the worker says took how long of them."""
    start = time.perf_counter()
    answer = client.post(f"/batches/{batch}/estimates", params=WAIT, json=body)
    took = time.perf_counter() - start
    answer.raise_for_status()
    made = answer.json()
    assert made["state"] == "succeeded", made
    return took, made["timing"]


def measure(client: httpx.Client, batch: str, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for what, body in QUESTIONS.items():
        asked(client, batch, body(0))
        found = [asked(client, batch, body(k)) for k in range(1, rounds + 1)]
        seconds = [took for took, _ in found]
        row = {
            "what": what,
            "p50_ms": statistics.median(seconds) * 1000,
            "p95_ms": float(np.quantile(seconds, 0.95)) * 1000,
            "timing": {
                name: statistics.median(timing[name] for _, timing in found) * 1000 for name in found[0][1]
            },
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as name:
        folder = Path(name)
        path = folder / "rollouts.jsonl"
        write_file(path, given.rollouts, given.tokens)
        with (
            server.serve(folder) as running,
            httpx.Client(base_url=f"{running.url}/api/v1", timeout=300) as client,
        ):
            rows = measure(client, uploaded(client, path), given.rounds)
    result = {"tokens": given.rollouts * given.tokens, "cores": os.cpu_count(), "rows": rows}
    keep("what_if", result)


if __name__ == "__main__":
    main()
