"""Findings as a page shows them: the numbers as words, the rows as links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app.formatting import number
from storage.database import ReadSession
from storage.models import Batch, Prompt

MOST_LINKS, MOST_PAIRS = 12, 6


@dataclass(frozen=True, slots=True)
class GroupLink:
    group_no: int
    group_id: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """`evidence`: label and number as text. `groups`, `rollouts`: the first ones; totals say how many."""

    code: str
    severity: str
    title: str
    explanation: str
    remedy: str
    evidence: tuple[tuple[str, str], ...]
    groups: tuple[GroupLink, ...]
    groups_total: int
    rollouts: tuple[int, ...]
    rollouts_total: int


def findings_of(session: ReadSession, batch: Batch) -> tuple[FindingView, ...]:
    """The batch's findings, worst first, as they are stored."""
    named = {id for finding in batch.findings for id in finding.get("groups", [])[:MOST_LINKS]}
    statement = select(Prompt.group_id, Prompt.group_no)
    statement = statement.where(Prompt.batch_id == batch.id, Prompt.group_id.in_(named))
    numbers = {id: number for id, number in session.execute(statement)} if named else {}
    return tuple(view_of(finding, numbers) for finding in batch.findings)


@dataclass(frozen=True, slots=True)
class Named:
    """A finding of the batch that names what a page shows."""

    code: str
    severity: str
    title: str


def naming(batch: Batch, group_id: str, index: int | None = None) -> tuple[Named, ...]:
    """The batch's findings that name the group, or the rollout where its `index` is given; worst first."""
    return tuple(
        Named(finding["code"], finding["severity"], finding["title"])
        for finding in batch.findings
        if (group_id in finding.get("groups", []) if index is None else index in finding.get("rollouts", []))
    )


def view_of(finding: Mapping[str, Any], numbers: Mapping[str, int]) -> FindingView:
    groups, members = finding.get("groups", []), finding.get("rollouts", [])
    links = tuple(GroupLink(numbers[id], id) for id in groups[:MOST_LINKS] if id in numbers)
    return FindingView(
        code=finding["code"],
        severity=finding["severity"],
        title=finding["title"],
        explanation=finding.get("explanation", ""),
        remedy=finding.get("remedy", ""),
        evidence=tuple(evidence_of(finding.get("evidence", {}))),
        groups=links,
        groups_total=finding.get("groups_total", len(groups)),
        rollouts=tuple(members[:MOST_LINKS]),
        rollouts_total=finding.get("rollouts_total", len(members)),
    )


def evidence_of(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each number that proves the finding, labelled; of lists and tables the first few."""
    return [(name.replace("_", " "), text_of(value)) for name, value in evidence.items()]


def text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{name}: {text_of(inner)}" for name, inner in list(value.items())[:MOST_PAIRS]]
        return ", ".join(pairs) + (" …" if len(value) > MOST_PAIRS else "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(text_of, value[:MOST_PAIRS])) + (" …" if len(value) > MOST_PAIRS else "")
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return number(value) if isinstance(value, int | float) else str(value)
