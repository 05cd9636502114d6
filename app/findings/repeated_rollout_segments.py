"""One rollout is several rows, and each of them votes in its group.

Agents are often recorded a turn (or a segment of a long conversation) per row, all with the reward of the
whole rollout and the id of the whole group. A group mean over rows then counts a rollout of nine turns nine
times.

* Rows with the same `rollout_id` in one group are one rollout. An id that spans groups is not one (some
  trainers call the step so) and is left alone.
* critical: the mean over rows differs from the mean over rollouts in some group by more than a tenth of the
  std of the rewards within that group; warning: by less; info: not at all (every rollout has as many rows).
* Nothing is said where recorded advantages sum to 0 over rollouts and not over rows: then each voted once.

Seen as: long rollouts that pull the baseline, an effective group size that varies with the number of turns
(agent-lightning#445, agent-lightning#489, slime#2300, slime#2062, AReaL#1563).

Remedy: take the baseline over rollouts (one row of each), then give its advantage to all its rows.

Evidence: `rows`, `rollouts`, `most_rows_of_one`, `groups`, `largest_shift_of_group_mean`, `recorded` ("rows"
| "unknown").
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.partitions import BALANCED, dense
from app.findings.recorded import counted
from app.findings.view import Bools, Ints, View, group_statistics
from app.formatting import number, plural

NOTICEABLE = 0.1


def check(view: View) -> dict[str, Any] | None:
    if not view.grouped or view.columns.rollout_id.size != view.rollouts:
        return None
    rollout, rows = _rollouts(view)
    if rows.max(initial=1) < 2:
        return None
    several = rows[rollout] > 1
    once = _first(rollout)
    all_rows = group_statistics(view.reward, view.group, view.groups)
    by_rollout = group_statistics(np.where(once, view.reward, np.nan), view.group, view.groups)
    touched = np.unique(view.group[several])
    with np.errstate(invalid="ignore"):
        shift = np.nan_to_num(np.abs(all_rows.mean - by_rollout.mean))[touched]
        noticeable = (shift > NOTICEABLE * np.nan_to_num(by_rollout.std[touched])) & (shift > 1e-9)
    said = _recorded(view, once, touched)
    if said == "rollouts":
        return None
    moved = float(shift.max(initial=0.0))
    severity: Severity = "info" if moved <= 1e-9 else "critical" if noticeable.any() else "warning"
    count = int((rows > 1).sum())
    return report(
        view,
        severity,
        f"{plural(count, 'rollout')} of {plural(touched.size, 'group')} {'is' if count == 1 else 'are'} "
        f"recorded as up to {int(rows.max())} rows each: counted by row, group means move by up to "
        f"{number(moved)}.",
        explanation="A mean and std over rows weigh a rollout by its number of rows: long rollouts pull the "
        "baseline towards themselves and their siblings are judged against it"
        + ("; the recorded advantages were made so." if said == "rows" else "."),
        remedy="Take the mean and std over rollouts (one row of each `rollout_id`) and give the advantage to "
        "all rows of the rollout.",
        evidence={
            "rows": int(several.sum()),
            "rollouts": count,
            "most_rows_of_one": int(rows.max()),
            "groups": touched.size,
            "largest_shift_of_group_mean": moved,
            "recorded": said or "unknown",
        },
        groups=touched,
        rollouts=np.flatnonzero(several),
    )


def _rollouts(view: View) -> tuple[Ints, Ints]:
    """`[B]` number of the rollout that each row is of, and the rows of each; a row without id is one."""
    names: dict[str, int] = {}
    ids = np.array(
        [-1 if name is None else names.setdefault(name, len(names)) for name in view.columns.rollout_id],
        dtype=np.int64,
    )
    if names:
        low = np.full(len(names), view.groups, dtype=np.int64)
        high = np.full(len(names), -1, dtype=np.int64)
        there = ids >= 0
        np.minimum.at(low, ids[there], view.group[there])
        np.maximum.at(high, ids[there], view.group[there])
        ids[there & (low != high)[ids]] = -1
    alone = ids < 0
    rollout = dense(np.where(alone, np.arange(view.rollouts), ids), alone.astype(np.int64))
    return rollout, np.bincount(rollout)


def _first(rollout: Ints) -> Bools:
    """`[B]` first row of its rollout, in storage order, which keeps the order of a group's rows."""
    _, first = np.unique(rollout, return_index=True)
    once = np.zeros(rollout.size, dtype=bool)
    once[first] = True
    return once


def _recorded(view: View, once: Bools, touched: Ints) -> str | None:
    """Over what the recorded advantages sum to 0 in the groups: "rows", "rollouts", or None."""
    rows = counted(view)
    if not (rows & np.isin(view.group, touched)).any():
        return None
    ratios = {}
    for name, taken in (("rows", rows), ("rollouts", rows & once)):
        advantage = np.where(taken, view.advantage, 0.0)
        total = np.abs(np.bincount(view.group, advantage, minlength=view.groups))[touched]
        size = np.bincount(view.group, np.abs(advantage), minlength=view.groups)[touched]
        ratios[name] = (total <= BALANCED * size)[size > 0]
    balanced = {name: bool(each.size and each.mean() >= 0.9) for name, each in ratios.items()}
    if balanced["rows"] == balanced["rollouts"]:
        return None
    return "rows" if balanced["rows"] else "rollouts"


FINDING = Finding("repeated_rollout_segments", "Several rows of one rollout vote", check)
