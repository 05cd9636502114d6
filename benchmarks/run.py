"""`make bench`: every benchmark, one after the other, then docs/performance.md from their results.

`--only NAME` runs one of them; `--report` runs none and only writes the page from the results that are there.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
SCRIPTS = {
    "estimators": "estimators_beside_peers.py",
    "reconcile": "reconcile.py",
    "ingest": "ingest.py",
    "pages": "pages.py",
    "recorder": "recorder.py",
}


def run(name: str) -> None:
    print(f"— {name}", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(HERE / SCRIPTS[name])], check=True, env=environment)


def result(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def goal(value: float | None, bound: float | None, at_least: bool) -> str:
    """The measured ratio beside its goal; "missed" where it is not reached."""
    if value is None:
        return "–"
    if bound is None:
        return f"{figure(value)}×"
    reached = value >= bound if at_least else value <= bound
    return f"{figure(value)}× ({'≥' if at_least else '≤'} {figure(bound)}){'' if reached else ' **missed**'}"


def within(seconds: float, most: float) -> str:
    """Seconds beside the most they may be."""
    return f"{seconds:.2f} s (≤ {most:g}){'' if seconds <= most else ' **missed**'}"


def estimators_section() -> str:
    found = result("estimators")
    if found is None:
        return ""
    head = ["what", "size", "ns", "per", "beside", "times as fast", "times the copy"]
    rows = [
        [
            row["what"],
            row["size"],
            figure(row["ns"]),
            row["unit"],
            row["peer"] or "–",
            goal(row["faster"], row["faster_at_least"], True),
            goal(row["floors"], row["floors_at_most"], False),
        ]
        for row in found["rows"]
    ]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    text = f"One thread, thread CPU time, {found['rounds']} interleaved rounds, median of the ratios "
    text += f"({versions}). "
    text += (
        "The copy is of the same bytes in the same run. S 64×512, M 1024×4096, L 8192×2048, X 256×32768.\n\n"
    )
    return "## Estimators beside verl's functions\n\n" + text + table(head, rows) + "\n"


def ingest_section() -> str:
    found = result("ingest")
    if found is None:
        return ""
    rows = [
        ["file", f"{found['megabytes']:.0f} MB of JSONL, {found['rows']:,} rows, 8 fields per token"],
        ["bare orjson, line by line", f"{found['bare_mb_per_s']:.0f} MB/s"],
        ["ingest, stored and summarised", f"{found['ingest_mb_per_s']:.0f} MB/s"],
        ["ratio of the two, by the clock", goal(found["ratio"], 1 / 3, True)],
        *(
            [["the same in CPU time, all of the worker's threads", goal(found["cpu_ratio"], None, True)]]
            if "cpu_ratio" in found
            else []
        ),
        ["upload over loopback", f"{found['upload_s']:.1f} s"],
        ["other pages meanwhile, p95", f"{found['page_p95_ms']:.0f} ms"],
        ["web, peak resident", f"{found['web_peak_mib']:.0f} MiB (≤ 1,024)"],
        ["worker, peak resident", f"{found['worker_peak_mib']:.0f} MiB (≤ 1,024)"],
    ]
    return "## A large file coming in\n\n" + table(["what", "measured"], rows) + "\n"


def pages_section() -> str:
    found = result("pages")
    if found is None:
        return ""
    rows = [[row["what"], f"{row['p50_ms']:.0f} ms", f"{row['p95_ms']:.0f} ms"] for row in found["rows"]]
    text = (
        f"{found['rollouts']:,} rollouts in {found['steps']} batches, SQLite, one request at a time, nothing "
    )
    text += "cached by the browser; the goal is a p95 of 100 ms.\n\n"
    return "## Pages and lists\n\n" + text + table(["what", "median", "p95"], rows) + "\n"


def reconcile_section() -> str:
    found = result("reconcile")
    if found is None:
        return ""
    rows = [
        [row["case"], row["verdict"], within(row["seconds"], 5), f"{row['cpu']:.2f} s"]
        for row in found["rows"]
    ]
    text = (
        f"{found['rollouts']:,} rollouts × {found['tokens']:,} tokens, warm, {found['threads']} threads.\n\n"
    )
    return "## Reconciling\n\n" + text + table(["recorded", "verdict", "clock", "CPU"], rows) + "\n"


def gpu_section() -> str:
    found = result("gpu")
    if found is None:
        return (
            "## On a GPU\n\nNot measured yet: no CUDA device was at hand. On one, "
            "`python benchmarks/gpu_check.py` takes a few minutes; the next report then has its table.\n"
        )
    rows = [
        [
            row["what"],
            row["size"],
            f"{row['us']:.0f} µs",
            goal(row["faster"], row["faster_at_least"] or None, True),
            goal(row["floors"], row["floors_at_most"], False),
            f"{row['error']:.1e}" if "error" in row else "–",
        ]
        for row in found["rows"]
    ]
    head = ["what", "size", "time", "times as fast as the loop", "times the copy", "error"]
    return f"## On a GPU\n\n{found['device']}, torch {found['torch']}, float32.\n\n{table(head, rows)}\n"


def report() -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {when}"
    head = "<!-- Written by `make bench`; do not edit. -->\n\n# Measured speed\n\n"
    head += f"Machine: {machine}, shared with other work: compare the rows of one table with each other.\n"
    parts = (estimators_section(), reconcile_section(), gpu_section(), ingest_section(), pages_section())
    return "\n".join([head, *parts]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=sorted(SCRIPTS))
    parser.add_argument(
        "--report", action="store_true", help="write the page from the results that are there"
    )
    args = parser.parse_args()
    if not args.report:
        for name in [args.only] if args.only else SCRIPTS:
            run(name)
    (ROOT / "docs" / "performance.md").write_text(report())


if __name__ == "__main__":
    main()
