"""docs/performance.md, from the results in benchmarks/results/."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from estimator_table import misses
from keeping import result

HERE = Path(__file__).resolve().parent
Found = dict[str, Any]
#: Goals of the parts that are not in their results, and what a miss is known to come from.
WHAT_IF_MS, RECONCILE_S, PAGE_MS, MEMORY_MIB = 300, 5, 100, 1024
WHAT_IF = (
    "most of it is packing and storing advantages, raw advantages and returns where there is one for every "
    "token, on two cores that other work shares"
)
RECONCILE = (
    "every convention and mistake is tried on a sample and the near ones on all tokens, on shared cores"
)
INGEST = "what is stored is also checked, compressed and summarised, and other work shares the two cores"
PAGES = "one request at a time on cores that other work shares: a p95 far above its median is waiting"

TOKEN_PAGE = (
    "the server reads the text and its tracks, while the browser still draws the page's chart beside it"
)
TOKEN_GOALS = {
    "first_paint_ms": ("until the first paint", 1000),
    "shown_ms": ("until the coloured tokens stand there", None),
    "recolour_ms": ("from a click on another colour until the tokens have it", 500),
    "scroll_p95_ms": ("between frames while it scrolls, p95", 60),
}


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def goal(value: float | None, bound: float | None, at_least: bool, unit: str = "×") -> str:
    """The measured figure beside its goal; "missed" where it is not reached."""
    if value is None:
        return "–"
    if bound is None:
        return f"{figure(value)}{unit}"
    reached = value >= bound if at_least else value <= bound
    sign = "≥" if at_least else "≤"
    return f"{figure(value)}{unit} ({sign} {figure(bound)}){'' if reached else ' **missed**'}"


def over(value: float, most: float, unit: str) -> str:
    """By how much a figure is above its goal, in words; empty where it is not."""
    return "" if value <= most else f"{figure(value)} {unit} of at most {most:g}, {value / most - 1:.0%} over"


def missed(lines: Iterable[tuple[str, list[str], str]]) -> str:
    """Name, misses in words and reason of each line that missed a goal, as a list. Empty where none did."""
    said = [
        f"- {name}: {'; '.join(each)}. {_sentence(why)}".rstrip() for name, each, why in lines if any(each)
    ]
    return "\nMissed, by how much and why:\n\n" + "\n".join(said) + "\n" if said else ""


def _sentence(why: str) -> str:
    return (
        f"{why[0].upper()}{why[1:]}." if why else "No cause is known beyond the spread between runs, ± 15 %."
    )


def estimators_section(found: Found) -> str:
    head = ["what", "size", "ns", "per", "beside", "times as fast", "times the copy"]
    rows = [
        [
            row["what"],
            row["size"],
            goal(row["ns"], row.get("ns_at_most"), False, ""),
            row["unit"],
            row["peer"] or "–",
            goal(row["faster"], row["faster_at_least"], True),
            goal(row["floors"], row["floors_at_most"], False),
        ]
        for row in found["rows"]
    ]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    text = f"One thread, thread CPU time, {found['rounds']} interleaved rounds, median of the ratios "
    text += (
        f"({versions}). Single precision but where it says otherwise. The copy is of the same bytes in the "
    )
    text += "same run. S 64×512, M 1024×4096, L 8192×2048, X 256×32768.\n\n"
    lines = (
        (
            f"{row['what']}, {row['size']}" + f", beside {row['peer']}" * bool(row["peer"]),
            misses(row),
            row["why"],
        )
        for row in found["rows"]
    )
    return (
        "## Estimators beside other projects' functions\n\n" + text + table(head, rows) + "\n" + missed(lines)
    )


def bounds_section(found: Found) -> str:
    rows = [
        [row["what"], row["size"], goal(row["error"], row["at_most"], False, "")] for row in found["bounds"]
    ]
    text = "Single precision against double: the largest error of an advantage, on inputs of the same seed. "
    text += "Memory is the peak of a process of its own. Growth is fitted over sizes that double.\n\n"
    lines = ((row["what"], [over(row["error"], row["at_most"], "")], row["why"]) for row in found["bounds"])
    head = ["what", "size", "measured"]
    return "## Accuracy, memory, growth\n\n" + text + table(head, rows) + "\n" + missed(lines)


def what_if_section(found: Found) -> str:
    head = ["asked", "median", "p95", "of it: load, compute, all of the worker's"]
    rows, lines = [], []
    for row in found["rows"]:
        timing = ", ".join(f"{value:.0f} ms" for value in row["timing"].values())
        p95 = goal(row["p95_ms"], WHAT_IF_MS, False, " ms")
        rows.append([row["what"], f"{row['p50_ms']:.0f} ms", p95, timing])
        lines.append((row["what"], [over(row["p95_ms"], WHAT_IF_MS, "ms")], WHAT_IF))
    text = f"{found['tokens']:,} tokens, {found['cores']} cores, a server and its worker: from the request "
    text += "`POST /batches/{id}/estimates?wait=60`, for settings not asked for before, to the summary.\n\n"
    return "## What if\n\n" + text + table(head, rows) + "\n" + missed(lines)


def reconcile_section(found: Found) -> str:
    rows = [
        [row["case"], row["verdict"], goal(row["seconds"], RECONCILE_S, False, " s"), f"{row['cpu']:.2f} s"]
        for row in found["rows"]
    ]
    text = f"{found['rollouts']:,} rollouts × {found['tokens']:,} tokens where not said, warm, "
    text += f"{found['threads']} threads.\n\n"
    lines = ((row["case"], [over(row["seconds"], RECONCILE_S, "s")], RECONCILE) for row in found["rows"])
    return (
        "## Reconciling\n\n"
        + text
        + table(["recorded", "verdict", "clock", "CPU"], rows)
        + "\n"
        + missed(lines)
    )


def gpu_section(found: Found) -> str:
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


def ingest_section(found: Found) -> str:
    said = [
        ("file", f"{found['megabytes']:.0f} MB of JSONL, {found['rows']:,} rows, 8 fields per token"),
        ("bare orjson, line by line", f"{found['bare_mb_per_s']:.0f} MB/s"),
        ("ingest, stored and summarised", f"{found['ingest_mb_per_s']:.0f} MB/s"),
        ("ratio of the two, by the clock", goal(found["ratio"], 1 / 3, True)),
        ("upload over loopback", f"{found['upload_s']:.1f} s"),
        ("other pages meanwhile, p95", f"{found['page_p95_ms']:.0f} ms"),
        ("web, peak resident", goal(found["web_peak_mib"], MEMORY_MIB, False, " MiB")),
        ("worker, peak resident", goal(found["worker_peak_mib"], MEMORY_MIB, False, " MiB")),
    ]
    for key, what, unit in (
        ("page_max_ms", "the slowest other page meanwhile", "ms"),
        ("progress_off", "progress and time apart at most, share", ""),
        ("cancel_s", "cancelled in the middle, until it is", "s"),
        ("worker_killed_s", "its worker killed in the middle, until all is there", "s"),
        ("server_killed_s", "the server killed in the middle, until all is there", "s"),
    ):
        if found.get(key) is not None:
            said.append((what, f"{figure(found[key])} {unit}".rstrip()))
    if "cpu_ratio" in found:
        said.insert(
            4, ("the same in CPU time, all of the worker's threads", goal(found["cpu_ratio"], None, True))
        )
    short = (
        f"{found['ratio']:.3g}× of 0.333×, {1 - 3 * found['ratio']:.0%} short"
        if found["ratio"] < 1 / 3
        else ""
    )
    lines = [("ratio by the clock", [short], INGEST)]
    rows = [list(each) for each in said]
    return "## A large file coming in\n\n" + table(["what", "measured"], rows) + "\n" + missed(lines)


def pages_section(found: Found) -> str:
    rows = [
        [row["what"], f"{row['p50_ms']:.0f} ms", goal(row["p95_ms"], PAGE_MS, False, " ms")]
        for row in found["rows"]
    ]
    text = (
        f"{found['rollouts']:,} rollouts in {found['steps']} batches, SQLite, one request at a time, nothing "
    )
    text += "cached by the browser.\n\n"
    lines = ((row["what"], [over(row["p95_ms"], PAGE_MS, "ms")], PAGES) for row in found["rows"])
    return "## Pages and lists\n\n" + text + table(["what", "median", "p95"], rows) + "\n" + missed(lines)


def token_page_section(found: Found) -> str:
    rows, lines = [], []
    for key, (what, most) in TOKEN_GOALS.items():
        rows.append([what, goal(found[key], most, False, " ms")])
        if most is not None:
            lines.append((what, [over(found[key], most, "ms")], TOKEN_PAGE))
    text = f"One response of {found['tokens']:,} tokens in Chromium, 1440 × 900, nothing cached.\n\n"
    return "## A long response\n\n" + text + table(["what", "measured"], rows) + "\n" + missed(lines)


def recorder_section(found: Found) -> str:
    rows = [
        [name, f"{row['log_ms']:.1f} ms", f"{row['copy_ms']:.1f} ms", f"{row['on_disk_s']:.2f} s"]
        for name, row in found.items()
    ]
    head = ["step", "inside `Recorder.log`", "a copy of its tensors", "until it is on disk"]
    return "## What recording costs a training\n\n" + table(head, rows) + "\n"


def report() -> str:
    """The page; parts without a result are named at its end."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {when}"
    page = "<!-- Written by `make bench`; do not edit. -->\n\n# Measured speed\n\n"
    page += f"Machine: {machine}, shared with other work: compare the rows of one table with each other.\n"
    sections = (
        ("estimators", estimators_section), ("estimators", bounds_section), ("what_if", what_if_section),
        ("reconcile", reconcile_section), ("gpu", gpu_section), ("ingest", ingest_section),
        ("pages", pages_section), ("token_page", token_page_section), ("recorder", recorder_section),
    )  # fmt: skip
    for name, section in sections:
        found = result(name)
        if found is not None:
            page += "\n" + section(found)
        elif name == "gpu":
            page += "\n## On a GPU\n\nNot measured yet: no CUDA device was at hand. On one, "
            page += (
                "`python benchmarks/gpu_check.py` takes a few minutes; the next report then has its table.\n"
            )
    absent = sorted({name for name, _ in sections if name != "gpu" and result(name) is None})
    if absent:
        page += f"\n## Not measured\n\nNo results of: {', '.join(absent)} (`make bench` makes them).\n"
    return page
