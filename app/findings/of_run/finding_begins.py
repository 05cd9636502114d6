"""A finding that batches did not have until some step, and nearly all of them have since.

Said of critical and warning findings that at most one in ten batches had before the step, nine in ten
since, over at least three steps each, the last one included. Findings that begin at one step are one entry,
as they have one cause. The severity is the worst of them.

Seen as: "the first step is normal, and in all that follow the rewards are zero" (unsloth#2757).

Remedy: compare the step where it begins with the one before it: what changed in configuration, data or
code.

Evidence: `codes` (with their severity), `first_step`, `last_step_before`, `batches_since`, `share_before`,
`share_since`.
"""

from typing import Any

import numpy as np

from app.findings.finding import SEVERITIES, Severity
from app.findings.of_run.finding import RunFinding, RunReport, Steps, report
from app.formatting import integer

LEAST, RARE, MOST = 3, 0.1, 0.9


def check(steps: Steps) -> list[RunReport]:
    n = len(steps.rows)
    if n < 2 * LEAST:
        return []
    begun: dict[int, list[tuple[str, Severity, float, float]]] = {}
    codes = {code for row in steps.rows[-LEAST:] for code in row.codes}
    for code in sorted(codes):
        found = _since(steps, code)
        if found is not None:
            begun.setdefault(found[0], []).append((code, *found[1:]))
    return [_report(steps, at, found) for at, found in sorted(begun.items())]


def _since(steps: Steps, code: str) -> tuple[int, Severity, float, float] | None:
    """Place of the first batch since which it is there, its severity, and the shares before and since."""
    heavy = [row.codes.get(code) in ("critical", "warning") for row in steps.rows]
    there = np.array(heavy, dtype=np.float64)
    n = there.size
    k = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(there)
    before, since = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    good = (before <= RARE) & (since >= MOST) & (there[k] > 0) & (there[-1] > 0)
    if not good.any():
        return None
    best = int(np.argmax(np.where(good, since - before, -1.0)))
    at = int(k[best])
    kinds = [row.codes[code] for row in steps.rows[at:] if code in row.codes]
    worst: Any = min(kinds, key=SEVERITIES.index)
    return at, worst, float(before[best]), float(since[best])


def _report(steps: Steps, at: int, found: list[tuple[str, Severity, float, float]]) -> RunReport:
    names = (
        " and ".join(code for code, *_ in found) if len(found) < 3 else ", ".join(code for code, *_ in found)
    )
    row, last = steps.rows[at], steps.rows[at - 1]
    return report(
        min((severity for _, severity, *_ in found), key=SEVERITIES.index),
        f"Since step {integer(row.step)} nearly every batch has the finding{'s' if len(found) > 1 else ''} "
        f"{names}; before, hardly any had.",
        explanation="What begins at one step and stays has one cause at that step: a change of the "
        "configuration, of the data, of the code, or a policy that tipped over.",
        remedy=f"Compare the batches of steps {integer(last.step)} and {integer(row.step)}.",
        evidence={
            "codes": {code: severity for code, severity, *_ in found},
            "first_step": row.step,
            "last_step_before": last.step,
            "batches_since": len(steps.rows) - at,
            "share_before": {code: before for code, _, before, _ in found},
            "share_since": {code: since for code, *_, since in found},
        },
        at=row,
    )


FINDING = RunFinding("finding_begins", "A finding that begins at a step and stays", check)
