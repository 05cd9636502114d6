"""How long do pages and lists take with a million rollouts in the database?

Writes benchmarks/results/pages.json. Rollouts without token arrays are written straight into the database
through the storage functions, `--steps` batches of `--rollouts` each; then a real server answers, one request
at a time.
"""

import argparse
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import server

from app import findings
from app.findings import statistics
from storage import batches, jobs, runs, uploads
from storage.database import make_engine, migrate, write
from storage.models import Upload

RESULTS = Path(__file__).parent / "results"
GROUP = 16


def fill(url: str, steps: int, rollouts: int) -> tuple[str, list[str]]:
    """The run's id and its batches' ids."""
    migrate(url)
    engine = make_engine(url)
    rng = np.random.default_rng(3)
    with write(engine) as session:
        run_id = runs.get_or_create(session, "million").id
    made = [add_batch(engine, run_id, step, rollouts, rng) for step in range(steps)]
    engine.dispose()
    return run_id, made


def add_batch(engine: Any, run_id: str, step: int, rollouts: int, rng: np.random.Generator) -> str:
    digest = hashlib.sha256(str(step).encode()).hexdigest()
    with write(engine) as session:
        upload = uploads.create(
            session, filename=f"{step}.jsonl", bytes=1, sha256=digest, files=[], request={}, state="queued"
        )
        jobs.begin_attempt(session, Upload, upload.id, "benchmark")
        batch = batches.begin(
            session, run_id=run_id, upload_id=upload.id, format="canonical-jsonl", step=step
        )
        for group in range(rollouts // GROUP):
            rows = [
                row(group * GROUP + i, float(rng.random() < 0.4 + step / 1000), rng) for i in range(GROUP)
            ]
            prompt = {"group_id": f"g{group}", "prompt": f"prompt {group}", "data_source": f"task{group % 3}"}
            batches.add_part(session, batch.id, group, 0, prompt, rows, {})
        found = findings.run(session, batch.id)
        batches.finish(session, batch.id, statistics=statistics.for_batch(session, batch.id), findings=found)
        jobs.finish(session, Upload, upload.id, "succeeded")
        return batch.id


def row(index: int, reward: float, rng: np.random.Generator) -> dict[str, Any]:
    length = int(rng.integers(100, 4000))
    return {
        "index": index,
        "row": index + 1,
        "reward": reward,
        "length": length,
        "valid": length,
        "response": f"response {index}",
        "digest": f"{index:032x}",
        "data_source": f"task{index // GROUP % 3}",
    }


def measure(base: str, run_id: str, made: list[str], rounds: int) -> list[dict[str, Any]]:
    some = made[len(made) // 2 :: max(1, len(made) // 20)] or made
    paths: dict[str, list[str]] = {
        "start page": ["/"],
        "run page": [f"/runs/{run_id}"],
        "batch page": [f"/batches/{b}" for b in some],
        "group page": [f"/batches/{b}/groups/7" for b in some],
        "rollout page": [f"/batches/{b}/rollouts/77" for b in some],
        "whitening page": [f"/batches/{b}/whitening" for b in some],
        "jobs page": ["/jobs"],
        "list of batches": ["/api/v1/batches?limit=50"],
        "list of steps": [f"/api/v1/runs/{run_id}/steps?limit=100"],
        "list of rollouts by reward": [f"/api/v1/batches/{b}/rollouts?sort=-reward&limit=50" for b in some],
        "list of groups": [f"/api/v1/batches/{b}/groups?limit=50" for b in some],
        "figure group_rewards": [f"/api/v1/batches/{b}/figures/group_rewards" for b in some],
        "figure reward_histogram": [f"/api/v1/batches/{b}/figures/reward_histogram" for b in some],
    }
    with httpx.Client(base_url=base, timeout=120) as client:
        return [{"what": name, **timed(client, urls, rounds)} for name, urls in paths.items()]


def timed(client: httpx.Client, urls: list[str], rounds: int) -> dict[str, float]:
    took = []
    for i in range(rounds + 2):
        start = time.perf_counter()
        client.get(urls[i % len(urls)]).raise_for_status()
        took.append((time.perf_counter() - start) * 1000)
    kept = took[2:]  # the first two warm the connection and the templates
    return {"p50_ms": float(np.quantile(kept, 0.5)), "p95_ms": float(np.quantile(kept, 0.95))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=123)
    parser.add_argument("--rollouts", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as name:
        folder = Path(name)
        start = time.perf_counter()
        run_id, made = fill(f"sqlite:///{folder / 'vantage.db'}", args.steps, args.rollouts)
        print(f"filled in {time.perf_counter() - start:.0f} s")
        with server.serve(folder) as running:
            rows = measure(running.url, run_id, made, args.rounds)
            running.sample()
    result = {"rollouts": args.steps * args.rollouts, "steps": args.steps, "rows": rows, "peak": running.peak}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "pages.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
