"""Recorded advantages that no candidate gives, where something that the configured convention needs is not in
the file: whether they are right cannot be told.

Said only where the header names a convention; it accuses nobody. What is missing is named: a field (critic
values, log-probabilities of the reference), a parameter (γ, λ, the coefficient of the KL penalty), or a
header key about advantages of which it is not known what it does.

Seen as: the question whether recorded advantages are right, of numbers without what they were computed from
(OpenRLHF#843, Search-R1#65).

Remedy: dump what is missing with the rollouts, or name it in the header.

Evidence: `unknown` (names), `configured`, `recorded` ("token" | "rollout"), `precision`.
"""

from typing import Any

from app.findings import recorded_advantages_disagree
from app.findings.finding import Finding, Report, report
from app.findings.unexplained import lacking
from app.findings.view import View

CODE = "recorded_advantages_unchecked"
TITLE = "Recorded advantages cannot be checked"


def check(view: View) -> Report | None:
    found: dict[str, Any] | None = view.facts.get(recorded_advantages_disagree.CODE)
    return None if found is None else judge(view, found)


def judge(view: View, found: dict[str, Any]) -> Report | None:
    """The report on a batch whose reconciliation (`app.reconciling.answer`) is `found`."""
    named = found["configured"]["convention"]
    names = lacking(view, found)
    if found["verdict"] != "no_match" or named is None or not names:
        return None
    return report(
        view,
        "info",
        f"Whether the recorded advantages are those of {named} cannot be told: not known "
        f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}.",
        explanation="Nothing that can be computed from the file gives them, but the configured convention "
        "cannot be computed from it either.",
        remedy="Dump what is missing with the rollouts, or name it in the header.",
        evidence={
            "unknown": names,
            "configured": named,
            "recorded": found["recorded"],
            "precision": found["precision"],
        },
    )


FINDING = Finding(CODE, TITLE, check)
