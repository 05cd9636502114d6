"""How long do pages, lists and figures take on a run of many steps?

Writes benchmarks/results/pages.json. `--steps` batches of `--rollouts` each, without token arrays, are
written straight into the database (see metadata.py); then a real server answers, one request at a time, and
another batch of the run each time: what it kept of the last one does not help.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import metadata
import numpy as np
import server
from keeping import keep

from app.figures import FIGURES

WARM = 2  # requests that warm the connection and the templates
BATCHES = 64  # so many batches take turns

#: What -> its address; {batch}, {estimate}, {run} and {other} stand for ids.
PAGES = {
    "start page": "/",
    "run page": "/runs/{run}",
    "run page, last of its pages": "/runs/{run}?page=1000",
    "batch page": "/batches/{batch}",
    "batch page, groups by number": "/batches/{batch}?sort=group&page=2",
    "group page": "/batches/{batch}/groups/7",
    "rollout page": "/batches/{batch}/rollouts/77",
    "whitening page": "/batches/{batch}/whitening",
    "loss page": "/batches/{batch}/loss",
    "verify page": "/batches/{batch}/verify",
    "compare page": "/batches/{batch}/compare",
    "jobs page": "/jobs",
    "dashboards page": "/dashboards",
    "dashboard page": "{dashboard}",
}
LISTS = {
    "runs": "/api/v1/runs",
    "run": "/api/v1/runs/{run}",
    "steps": "/api/v1/runs/{run}/steps?limit=100",
    "batches": "/api/v1/batches?limit=50",
    "batch": "/api/v1/batches/{batch}",
    "rollouts": "/api/v1/batches/{batch}/rollouts?limit=50",
    "rollouts by reward": "/api/v1/batches/{batch}/rollouts?sort=-reward&limit=50",
    "rollouts by advantage": "/api/v1/batches/{batch}/rollouts?sort=-advantage&limit=50&estimate={estimate}",
    "rollouts of a text": "/api/v1/batches/{batch}/rollouts?q=response+77&limit=50",
    "groups": "/api/v1/batches/{batch}/groups?limit=50",
    "groups by weight": "/api/v1/batches/{batch}/groups?sort=-total_abs&limit=50&estimate={estimate}",
    "group": "/api/v1/batches/{batch}/groups/g7",
    "findings": "/api/v1/batches/{batch}/findings",
    "estimates": "/api/v1/batches/{batch}/estimates",
    "estimate": "/api/v1/estimates/{estimate}",
    "jobs": "/api/v1/jobs",
    "workers": "/api/v1/workers",
    "dashboards": "/api/v1/dashboards",
}


def addresses() -> Iterator[tuple[str, str]]:
    """What is asked for, and where: every page, list and figure."""
    yield from PAGES.items()
    yield from ((f"list: {name}", address) for name, address in LISTS.items())
    for name, figure in FIGURES.items():
        place = "/api/v1/batches/{batch}" if figure.scope == "batch" else "/api/v1/runs/{run}"
        yield f"figure {name}", f"{place}/figures/{name}"


def measure(client: httpx.Client, filled: metadata.Filled, rounds: int) -> list[dict[str, Any]]:
    dashboard = make_dashboard(client, filled)
    some = np.linspace(0, len(filled.batches) - 1, min(BATCHES, len(filled.batches))).astype(int).tolist()
    rows = []
    for what, address in addresses():
        known = {"run": filled.run, "dashboard": dashboard}
        urls = [address.format(batch=filled.batches[i], estimate=filled.estimates[i], **known) for i in some]
        rows.append({"what": what, **timed(client, list(dict.fromkeys(urls)), rounds)})
        print(f"{what}: p95 {rows[-1]['p95_ms']:.0f} ms", flush=True)
    return rows


def make_dashboard(client: httpx.Client, filled: metadata.Filled) -> str:
    """A dashboard of figures of different steps; its address."""
    names = ("group_rewards", "length_advantage", "reward_histogram", "group_advantages")
    panels = [
        {"figure": name, "batch": filled.batches[i * len(filled.batches) // len(names)]}
        for i, name in enumerate(names)
    ]
    answer = client.post("/api/v1/dashboards", json={"title": "Pinned", "panels": panels})
    return f"/dashboards/{answer.raise_for_status().json()['id']}"


def timed(client: httpx.Client, urls: list[str], rounds: int) -> dict[str, float]:
    took = []
    for i in range(rounds + WARM):
        start = time.perf_counter()
        client.get(urls[i % len(urls)]).raise_for_status()
        took.append((time.perf_counter() - start) * 1000)
    kept = took[WARM:]
    return {"p50_ms": float(np.quantile(kept, 0.5)), "p95_ms": float(np.quantile(kept, 0.95))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rollouts", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as name:
        folder = Path(name)
        start = time.perf_counter()
        filled = metadata.fill(folder, args.steps, args.rollouts)
        fill_s, size = time.perf_counter() - start, (folder / "vantage.db").stat().st_size
        print(f"filled {size / 1e9:.1f} GB in {fill_s:.0f} s", flush=True)
        with server.serve(folder) as running:
            with httpx.Client(base_url=running.url, timeout=120) as client:
                rows = measure(client, filled, args.rounds)
            running.sample()
    result = {"rollouts": args.steps * args.rollouts, "steps": args.steps, "rows": rows, "peak": running.peak}
    result |= {"fill_s": fill_s, "database_bytes": size}
    keep("pages", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
