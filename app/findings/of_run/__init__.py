"""What is wrong with a run, worst first: changes over its steps, found in the stored statistics alone.

No rollout is read. Splits (train, val, …) are looked at one by one, and named where there are several.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.attempts import Attempts
from app.findings.finding import SEVERITIES, reports
from app.findings.of_run import (
    advantage_drift,
    finding_begins,
    length_drift,
    missing_steps,
    repeated_steps,
    reward_collapse,
    signal_lost,
    truncation_jump,
)
from app.findings.of_run.finding import RunFinding, Steps
from storage import runs
from storage.database import AnySession
from storage.kept import Kept
from storage.runs import StepRow

__all__ = ["RUN_FINDINGS", "Checked", "check_steps", "findings_of_steps", "kept_findings", "run_findings"]
#: In the order in which findings of equal severity stand.
RUN_FINDINGS: dict[str, RunFinding] = {
    finding.code: finding
    for finding in (
        reward_collapse.FINDING,
        signal_lost.FINDING,
        truncation_jump.FINDING,
        length_drift.FINDING,
        advantage_drift.FINDING,
        finding_begins.FINDING,
        repeated_steps.FINDING,
        missing_steps.FINDING,
    )
}


@dataclass(frozen=True, slots=True)
class Checked:
    """`findings`, worst first: `{code, severity, split, title, explanation, remedy, evidence, step, batch}`,
    where `step` and `batch` are where it begins. `failed`: code -> title of checks that raised."""

    findings: list[dict[str, Any]]
    failed: dict[str, str]


#: The findings of so many runs (or splits of runs) are kept.
_KEPT: Kept[tuple[Any, ...], Checked] = Kept(16)


def run_findings(session: AnySession, run_id: str, split: str | None = None) -> list[dict[str, Any]]:
    """The findings of a run, or of one split of it, worst first: see `Checked`."""
    return kept_findings(runs.steps(session, run_id, split)).findings


def kept_findings(rows: Sequence[StepRow]) -> Checked:
    """What is to be said of stored rows: statistics of a batch never change, so what was found lately in the
    same rows lately is given again."""
    key = tuple((row.batch_id, row.newest, *row.codes.items()) for row in rows)
    return _KEPT.get(key, lambda: check_steps(rows))


def findings_of_steps(rows: Sequence[StepRow]) -> list[dict[str, Any]]:
    """The findings in rows as `storage.runs.steps` gives them: see `Checked`."""
    return check_steps(rows).findings


def check_steps(rows: Sequence[StepRow]) -> Checked:
    """Every check of a run, split by split; one that raises costs nothing but itself."""
    splits = list(dict.fromkeys(row.split for row in rows if row.step is not None))
    found: list[dict[str, Any]] = []
    attempts = Attempts({"batch": rows[-1].batch_id} if rows else {})
    for split in splits:
        mine = [row for row in rows if row.split == split and row.step is not None]
        steps = Steps(split, [row for row in mine if row.newest], [row for row in mine if not row.newest])
        for finding in RUN_FINDINGS.values():
            check = (finding.code, finding.title)
            found += attempts.do(check, partial(_said, finding, steps, len(splits) > 1), [])
    return Checked(sorted(found, key=lambda said: SEVERITIES.index(said["severity"])), attempts.failed)


def _said(finding: RunFinding, steps: Steps, named: bool) -> list[dict[str, Any]]:
    """What one finding says of a split, which its title names where it is to be `named`."""
    before = f"{steps.split or 'No split'}: " if named else ""
    return [
        {"code": finding.code, "split": steps.split, **said, "title": f"{before}{said['title']}"}
        for said in reports(finding.check(steps))
    ]
