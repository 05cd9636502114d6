"""What is wrong with a run, worst first: changes over its steps, found in the stored statistics alone.

No rollout is read. Splits (train, val, …) are looked at one by one, and named where there are several.
"""

from collections.abc import Sequence
from typing import Any

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

__all__ = ["RUN_FINDINGS", "findings_of_steps", "kept_findings", "run_findings"]
#: The findings of so many runs (or splits of runs) are kept.
_KEPT: Kept[tuple[Any, ...], list[dict[str, Any]]] = Kept(16)

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


def run_findings(session: AnySession, run_id: str, split: str | None = None) -> list[dict[str, Any]]:
    """The findings of a run, or of one split of it, worst first: `{code, severity, split, title, explanation,
    remedy, evidence, step, batch}`. `step` and `batch` are where it begins."""
    return kept_findings(runs.steps(session, run_id, split))


def kept_findings(rows: Sequence[StepRow]) -> list[dict[str, Any]]:
    """`findings_of_steps` of stored rows: statistics of a batch never change, so what was found lately in
    the same rows lately is given again."""
    key = tuple((row.batch_id, row.newest, *row.codes.items()) for row in rows)
    return _KEPT.get(key, lambda: findings_of_steps(rows))


def findings_of_steps(rows: Sequence[StepRow]) -> list[dict[str, Any]]:
    """The same for rows as `storage.runs.steps` gives them."""
    splits = list(dict.fromkeys(row.split for row in rows if row.step is not None))
    found = []
    for split in splits:
        mine = [row for row in rows if row.split == split and row.step is not None]
        steps = Steps(split, [row for row in mine if row.newest], [row for row in mine if not row.newest])
        for finding in RUN_FINDINGS.values():
            for said in reports(finding.check(steps)):
                title = f"{split or 'No split'}: {said['title']}" if len(splits) > 1 else said["title"]
                found.append({"code": finding.code, "split": split, **said, "title": title})
    return sorted(found, key=lambda said: SEVERITIES.index(said["severity"]))
