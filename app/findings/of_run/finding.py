"""What a finding of a run is: a change over its steps that a person should know of, with the numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.findings.finding import Severity, plain
from app.findings.of_run.series import Turn
from storage.runs import StepRow

RunReport = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Steps:
    """The ready batches of one split of a run, in step order.

    rows      newest batch of every step; batches without a step are not there
    replaced  older batches of a step that has a newer one
    """

    split: str | None
    rows: Sequence[StepRow]
    replaced: Sequence[StepRow]


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A check of one split: gives reports made by `report`, or None. Never on a steady run."""

    code: str
    title: str
    check: Callable[[Steps], RunReport | list[RunReport] | None]


def report(
    severity: Severity,
    title: str,
    *,
    explanation: str,
    remedy: str,
    evidence: dict[str, Any],
    at: StepRow | None = None,
) -> RunReport:
    """The finding as it is sent. `at`: the batch where it begins, by its step and id."""
    return {
        "severity": severity,
        "title": title,
        "explanation": explanation,
        "remedy": remedy,
        "evidence": {name: plain(value) for name, value in evidence.items()},
        "step": None if at is None else at.step,
        "batch": None if at is None else at.batch_id,
    }


def numbers(turned: Turn) -> dict[str, Any]:
    """The evidence of a turn."""
    return {
        "before": turned.before,
        "now": turned.now,
        "last_step_before": turned.last_before.step,
        "first_step_after": turned.at.step,
        "now_is_of_steps": list(turned.steps),
        "times_noise": turned.score,
    }
