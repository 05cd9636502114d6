"""How fast does a large JSONL file come in, beside bare parsing of the same file, and at what memory?

Writes benchmarks/results/ingest.json. Figures of one run belong together: the parse is timed before and
after the ingest on the same machine, and the slower of the two is what the ratio is taken of.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import server

RESULTS = Path(__file__).parent / "results"
FLOATS = ("rollout_log_probs", "old_log_probs", "ref_log_probs", "values", "advantages")


def write_file(path: Path, megabytes: int, tokens: int = 4096, group: int = 16) -> int:
    """Canonical JSONL with 8 per-token fields, floats as `.tolist()` writes them. Returns its rows."""
    rng = np.random.default_rng(7)
    rows = 0
    with open(path, "wb") as file:
        while file.tell() < megabytes * 10**6:
            n = int(rng.integers(tokens // 8, tokens))
            row: dict[str, Any] = {
                "step": 1,
                "group_id": f"g{rows // group}",
                "prompt": f"prompt {rows // group}",
            }
            row |= {"response": "x" * n, "reward": float(rng.integers(0, 2))}
            row["response_ids"] = rng.integers(0, 150_000, n)
            row["response_mask"] = np.ones(n, np.int64)
            row["token_level_rewards"] = np.r_[np.zeros(n - 1), row["reward"]]
            row |= {name: -rng.random(n, np.float32).astype(np.float64) for name in FLOATS}
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
            rows += 1
    return rows


def parse_seconds(path: Path) -> tuple[float, float]:
    """Bare parsing, the floor: every line through orjson, nothing kept. Of wall clock, and of CPU."""
    start, cpu = time.perf_counter(), time.process_time()
    with open(path, "rb") as file:
        for line in file:
            orjson.loads(line)
    return time.perf_counter() - start, time.process_time() - cpu


def ingest(running: server.Server, path: Path) -> dict[str, float]:
    """Upload by one raw POST, then follow the job. Seconds of both, and how pages answered meanwhile."""
    start = time.perf_counter()
    with open(path, "rb") as file:
        answer = httpx.post(
            f"{running.url}/api/v1/uploads",
            params={"filename": path.name},
            content=iter_chunks(file),
            timeout=600,
        )
    answer.raise_for_status()
    running.sample()
    uploaded, page_ms, cpu = time.perf_counter(), [], running.cpu.get("worker", 0.0)
    while True:
        running.sample()
        asked = time.perf_counter()
        httpx.get(running.url, timeout=60).raise_for_status()
        page_ms.append((time.perf_counter() - asked) * 1000)
        body = httpx.get(f"{running.url}/api/v1/uploads/{answer.json()['id']}", timeout=60).json()
        if body["state"] not in ("queued", "running"):
            break
        time.sleep(0.25)
    if body["state"] != "succeeded":
        raise SystemExit(f"the ingest ended as {body['state']}: {body.get('problems')}")
    done = time.perf_counter()
    running.sample()
    return {
        "worker_cpu_s": running.cpu["worker"] - cpu,
        "upload_s": uploaded - start,
        "ingest_s": done - uploaded,
        "page_p95_ms": float(np.quantile(page_ms, 0.95)),
        "accepted": body["counts"]["accepted"],
    }


def iter_chunks(file: Any, size: int = 1 << 20) -> Any:
    while chunk := file.read(size):
        yield chunk


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=500)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as name:
        folder = Path(name)
        path = folder / "rollouts.jsonl"
        rows = write_file(path, megabytes)
        size = path.stat().st_size / 1e6
        before = parse_seconds(path)
        with server.serve(folder) as running:
            took = ingest(running, path)
        after = parse_seconds(path)
    assert took["accepted"] == rows, "rows were lost"
    bare, bare_cpu = max(before[0], after[0]), max(before[1], after[1])
    result = took | {
        "megabytes": size,
        "rows": rows,
        "bare_orjson_s": bare,
        "bare_mb_per_s": size / bare,
        "ingest_mb_per_s": size / took["ingest_s"],
        "ratio": bare / took["ingest_s"],
        "bare_cpu_s": bare_cpu,
        "cpu_ratio": bare_cpu / took["worker_cpu_s"],
        "web_peak_mib": running.peak.get("web", 0) / 2**20,
        "worker_peak_mib": running.peak.get("worker", 0) / 2**20,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ingest.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
