"""How fast does a large JSONL file come in, beside bare parsing of the same file, and at what cost?

Writes benchmarks/results/ingest.json. Figures of one run belong together: the parse is timed before and
after the ingest on the same machine, and the slower of the two is what the ratio is taken of. While the file
comes in, other pages are asked for, the progress is noted and memory is looked at. The same bytes are then
sent again three times: to be cancelled, to lose their worker to `kill -9`, and to lose the whole server.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import orjson
import server
from keeping import keep

FLOATS = ("rollout_log_probs", "old_log_probs", "ref_log_probs", "values", "advantages")
PAGES = ("/", "/jobs", "/api/v1/batches?limit=50", "/api/v1/runs")
ENDED = ("succeeded", "failed", "cancelled")
STEP = 0.1  # seconds between two looks
LONGEST = 1800.0  # seconds that anything may take


@dataclass
class Seen:
    """What was noted while a file came in: milliseconds of other pages, and (seconds, share done)."""

    page_ms: list[float] = field(default_factory=list)
    progress: list[tuple[float, float]] = field(default_factory=list)  # while the file is read


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


def chunks(file: BinaryIO, size: int = 1 << 20) -> Iterator[bytes]:
    while chunk := file.read(size):
        yield chunk


def upload(running: server.Server, path: Path, run: str) -> str:
    """One raw POST: the upload's id."""
    with open(path, "rb") as file:
        answer = httpx.post(
            f"{running.url}/api/v1/uploads",
            params={"filename": path.name, "run": run},
            content=chunks(file),
            timeout=LONGEST,
        )
    return str(answer.raise_for_status().json()["id"])


def receipt(running: server.Server, upload_id: str) -> dict[str, Any]:
    body: dict[str, Any] = httpx.get(f"{running.url}/api/v1/uploads/{upload_id}", timeout=60).json()
    return body


def until(
    running: server.Server, upload_id: str, reached: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The receipt as soon as it is as wanted. Ends the benchmark where it never is."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        body = receipt(running, upload_id)
        if reached(body):
            return body
        if body["state"] in ENDED:
            raise SystemExit(f"an ingest ended as {body['state']} too early: {body.get('problems')}")
        time.sleep(STEP)  # the states on the way to it are not waited for by the API
    raise SystemExit("an ingest took too long")


def share(body: dict[str, Any]) -> float:
    """How much of it is done, as its progress says."""
    progress = body["progress"]
    return float(progress["done"]) / max(1.0, float(progress["total"]))


def ingest(running: server.Server, path: Path) -> dict[str, Any]:
    """Upload, then follow the job. Seconds of both, and what was seen meanwhile."""
    start = time.perf_counter()
    upload_id = upload(running, path, "large")
    running.sample()
    uploaded, seen, cpu = time.perf_counter(), Seen(), running.cpu.get("worker", 0.0)

    def look(body: dict[str, Any]) -> bool:
        running.sample()
        if body["progress"]["stage"] == "reading":
            seen.progress.append((time.perf_counter() - uploaded, share(body)))
        for page in PAGES:
            asked = time.perf_counter()
            httpx.get(f"{running.url}{page}", timeout=60).raise_for_status()
            seen.page_ms.append((time.perf_counter() - asked) * 1000)
        return bool(body["state"] == "succeeded")

    body = until(running, upload_id, look)
    took = time.perf_counter() - uploaded
    running.sample()
    return {
        "worker_cpu_s": running.cpu["worker"] - cpu,
        "upload_s": uploaded - start,
        "ingest_s": took,
        "page_p95_ms": float(np.quantile(seen.page_ms, 0.95)),
        "page_max_ms": max(seen.page_ms),
        "progress_off": progress_off(seen.progress),
        "summing_up_s": took - max((seconds for seconds, _ in seen.progress), default=0.0),
        "accepted": body["counts"]["accepted"],
    }


def progress_off(progress: list[tuple[float, float]]) -> float:
    """The largest gap between the share of the reading time that had passed and the share that was said to be
    read. Raises SystemExit where the progress went back."""
    said = [done for _, done in progress]
    if said != sorted(said):
        raise SystemExit("the progress went back")
    if len(progress) < 2:
        return 0.0
    (begun, first), (ended, last) = progress[0], progress[-1]
    return max(
        abs((seconds - begun) / (ended - begun) - (done - first) / max(last - first, 1e-9))
        for seconds, done in progress
    )


def cancelled(running: server.Server, path: Path) -> float:
    """Seconds from asking to cancel until the job says that it is cancelled; nothing may be left of it."""
    upload_id = upload(running, path, "cancelled")
    until(running, upload_id, lambda body: share(body) > 0.1)
    asked = time.perf_counter()
    httpx.delete(f"{running.url}/api/v1/uploads/{upload_id}", timeout=60).raise_for_status()
    until(running, upload_id, lambda body: body["state"] == "cancelled")
    took = time.perf_counter() - asked
    if run_is_there(running, "cancelled"):
        raise SystemExit("a cancelled upload left a batch")
    return took


def run_is_there(running: server.Server, name: str) -> bool:
    items = httpx.get(f"{running.url}/api/v1/batches?limit=50", timeout=60).json()["items"]
    return any(batch["run"] == name for batch in items)


def worker_killed(running: server.Server, path: Path, rows: int) -> float:
    """Kill the worker in the middle of an ingest: seconds until all of it is there after all."""
    upload_id = upload(running, path, "worker-killed")
    until(running, upload_id, lambda body: share(body) > 0.3)
    killed = time.perf_counter()
    os.kill(server.children(running.pid)[0], signal.SIGKILL)
    body = until(running, upload_id, lambda body: body["state"] == "succeeded")
    if body["counts"]["accepted"] != rows:
        raise SystemExit("rows were lost with the worker")
    return time.perf_counter() - killed


def server_killed(folder: Path, path: Path, rows: int) -> float:
    """Kill server and worker in the middle of an ingest, start again: seconds until all of it is there."""
    with server.serve(folder) as running:
        upload_id = upload(running, path, "server-killed")
        until(running, upload_id, lambda body: share(body) > 0.3)
        for pid in (running.pid, *server.children(running.pid)):
            os.kill(pid, signal.SIGKILL)
    started = time.perf_counter()
    with server.serve(folder) as running:
        body = until(running, upload_id, lambda body: body["state"] == "succeeded")
        if body["counts"]["accepted"] != rows:
            raise SystemExit("rows were lost with the server")
    return time.perf_counter() - started


def measure(folder: Path, path: Path, rows: int, kills: bool) -> dict[str, Any]:
    """Everything but the bare parsing."""
    with server.serve(folder) as running:
        took = ingest(running, path)
        if took["accepted"] != rows:
            raise SystemExit("rows were lost")
        took["cancel_s"] = cancelled(running, path)
        if kills:
            took["worker_killed_s"] = worker_killed(running, path, rows)
    if kills:
        took["server_killed_s"] = server_killed(folder, path, rows)
    peak = {f"{role}_peak_mib": running.peak.get(role, 0) / 2**20 for role in ("web", "worker")}
    return took | peak


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--no-kills", action="store_true", help="leave out what `kill -9` does")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as name:
        folder = Path(name)
        path = folder / "rollouts.jsonl"
        rows = write_file(path, args.megabytes)
        size = path.stat().st_size / 1e6
        before = parse_seconds(path)
        took = measure(folder, path, rows, not args.no_kills)
        after = parse_seconds(path)
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
    }
    keep("ingest", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
