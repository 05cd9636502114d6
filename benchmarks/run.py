"""`make bench`: every benchmark, one after the other, then docs/performance.md from their results.

    python benchmarks/run.py [--only NAME …] [--rounds 7] [--megabytes 500] [--steps 123] [--report]

A part that fails is named at the end, and the exit status is then 1; the page is written from the results
that there are. `--report` measures nothing. The sizes of the goals are `--megabytes 2000 --steps 1000`.
"""

import argparse
import os
import subprocess
import sys
import time

from report import HERE, report

ROOT = HERE.parent
SCRIPTS = {
    "estimators": "estimators_beside_peers.py",
    "what_if": "what_if.py",
    "reconcile": "reconcile.py",
    "ingest": "ingest.py",
    "pages": "pages.py",
    "token_page": "token_page.py",
    "recorder": "recorder.py",
}


def run(name: str, options: list[str]) -> bool:
    """Whether the part ran to its end."""
    print(f"— {name}", flush=True)
    begun = time.monotonic()
    command = [sys.executable, str(HERE / SCRIPTS[name]), *options]
    # Threads wait as a worker's do (app/__init__.py).
    own = {"PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(command, check=False, env={**os.environ, **own})
    said = "done" if done.returncode == 0 else f"failed with status {done.returncode}"
    print(f"— {name}: {said} after {time.monotonic() - begun:.0f} s", flush=True)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), default=list(SCRIPTS))
    parser.add_argument("--rounds", type=int, default=7, help="of the estimators")
    parser.add_argument("--megabytes", type=int, default=500, help="of the file that is ingested")
    parser.add_argument("--steps", type=int, default=123, help="batches of 8,192 rollouts behind the pages")
    parser.add_argument("--report", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    options = {
        "estimators": ["--rounds", str(args.rounds)],
        "ingest": ["--megabytes", str(args.megabytes)],
        "pages": ["--steps", str(args.steps)],
    }
    chosen = [] if args.report else [name for name in SCRIPTS if name in args.only]
    failed = [name for name in chosen if not run(name, options.get(name, []))]
    (ROOT / "docs" / "performance.md").write_text(report())
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; docs/performance.md has the results of the others")


if __name__ == "__main__":
    main()
