"""The mean reward fell and stayed down, over the batch or in one task.

Said where the mean fell by at least half of the rewards' own std (of the batches before) and the fall lasts
to the end of the run. critical from one std on, or where nothing is left of what had been gained since the
first steps; warning otherwise. Tasks (`data_source`) are looked at one by one, as two of them can cancel in
the mean; a task is named only where the whole batch's mean does not say it already.

Seen as: "sudden drop in reward", "why will the final accuracy reward be 0" (ZeroSearch#23, open-r1#257,
unsloth#2757).

Remedy: look at the batch where it begins: lengths, truncation, KL, the first rollouts; go back to a
checkpoint before it.

Evidence: `before`, `now`, `std_of_rewards`, `fall_in_stds`, `first_step_after`, `last_step_before`, and of
a task `data_source`.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from app.findings.finding import Severity
from app.findings.of_run.finding import RunFinding, RunReport, Steps, numbers, report
from app.findings.of_run.series import Series, Turn, series, steps_of, turn
from app.formatting import integer, number

FALL, DEEP = 0.5, 1.0
MOST_TASKS = 20


def check(steps: Steps) -> list[RunReport]:
    whole = _fall(
        series(steps.rows, lambda said: _of(said, "mean"), lambda said: _error(said.get("reward"))), steps
    )
    if whole is not None:
        return [_report(*whole, None)]
    names = dict.fromkeys(
        row["data_source"]
        for each in steps.rows[-MOST_TASKS:]
        for row in each.statistics.get("data_sources") or ()
    )
    found = []
    for name in list(names)[:MOST_TASKS] if len(names) > 1 else []:
        means = series(steps.rows, partial(_task_mean, name=name), partial(_task_error, name=name))
        if (fallen := _fall(means, steps, name)) is not None:
            found.append(_report(*fallen, name))
    return found


def _fall(found: Series, steps: Steps, task: str | None = None) -> tuple[Turn, float, Severity] | None:
    """The turn, the rewards' std before it, and how bad it is."""
    turned = turn(found)
    if turned is None or turned.now >= turned.before:
        return None
    spreads = [
        spread
        for row in steps.rows
        if row.step is not None and row.step <= (turned.last_before.step or 0)
        and (spread := _of(row.statistics, "std") if task is None else _task(row.statistics, task).get("std"))
    ]  # fmt: skip
    spread = float(np.median(spreads)) if spreads else 0.0
    depth = (turned.before - turned.now) / spread if spread else math.inf
    if depth < FALL or (spread and -turned.halves / spread < FALL):
        return None
    start = float(np.median(found.values[:3]))
    return turned, spread, "critical" if depth >= DEEP or turned.now <= start < turned.before else "warning"


def _report(turned: Turn, spread: float, severity: Severity, task: str | None) -> RunReport:
    what = "The mean reward" if task is None else f"The mean reward of data source {task!r}"
    depth = (turned.before - turned.now) / spread if spread else None
    return report(
        severity,
        f"{what} fell from {number(turned.before)} (until step {integer(turned.last_before.step)}) to "
        f"{number(turned.now)} ({steps_of(turned)}).",
        explanation="The policy lost what it could do, or the rewards changed. What is trained from here on "
        "starts from the worse policy.",
        remedy="Open the batch where it begins and the one before it: lengths, truncated share, KL and the "
        "texts; if a finding begins there too, that is the first suspect. Go back to a checkpoint before it.",
        evidence={**numbers(turned), "std_of_rewards": spread, "fall_in_stds": depth}
        | ({} if task is None else {"data_source": task}),
        at=turned.at,
    )


def _of(said: dict[str, Any], name: str) -> float | None:
    found = (said.get("reward") or {}).get(name)
    return None if found is None else float(found)


def _error(said: dict[str, Any] | None) -> float | None:
    """Standard error of a mean of n rewards."""
    if not said or not said.get("n") or said.get("std") is None:
        return None
    return float(said["std"]) / math.sqrt(said["n"])


def _task(said: dict[str, Any], name: str) -> dict[str, Any]:
    rows = said.get("data_sources") or ()
    return next((row for row in rows if row["data_source"] == name), {})


def _task_mean(said: dict[str, Any], name: str) -> float | None:
    return _task(said, name).get("mean")


def _task_error(said: dict[str, Any], name: str) -> float | None:
    return _error(_task(said, name))


FINDING = RunFinding("reward_collapse", "The reward fell and stayed down", check)
