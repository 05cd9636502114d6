"""What a finding is: a fact about a batch that a person should know, with the numbers and rows that prove
it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.findings.part import Part
from app.findings.view import View

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")

#: Most groups and rollouts that one finding names; the totals say how many there are.
MOST_GROUPS, MOST_ROLLOUTS = 100, 200


Report = dict[str, Any]
Check = Callable[[View], Report | list[Report] | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A check: gives reports made by `report`, or None when there is nothing to say. Never on a clean batch.

    One that looks at tokens has `observe(part, state)`, which sees every part of the batch once. `state` is
    what `begin(view)` gave before the tokens were read; `check` finds it as `view.facts[code]`.
    """

    code: str
    title: str
    check: Check
    observe: Callable[[Part, Any], None] | None = None
    begin: Callable[[View], Any] = lambda view: {}


def reports(said: Report | list[Report] | None) -> list[Report]:
    """What a check gave, as a list."""
    if said is None:
        return []
    return said if isinstance(said, list) else [said]


def report(
    view: View,
    severity: Severity,
    title: str,
    *,
    explanation: str,
    remedy: str,
    evidence: dict[str, Any],
    groups: NDArray[np.int64] | Sequence[int] = (),
    rollouts: NDArray[np.int64] | Sequence[int] = (),
) -> dict[str, Any]:
    """The finding as it is stored and sent. `groups`: rows of `view.groups`; `rollouts`: positions in the
    view.

    `title` is one sentence with the numbers, `explanation` what it does to training, `remedy` what to do.
    """
    places = np.asarray(rollouts, dtype=np.int64)
    numbers = np.asarray(groups, dtype=np.int64)
    return {
        "severity": severity,
        "title": title,
        "explanation": explanation,
        "remedy": remedy,
        "evidence": {name: plain(value) for name, value in evidence.items()},
        "groups": [view.group_ids[g] for g in numbers[:MOST_GROUPS].tolist()],
        "groups_total": int(numbers.size),
        "rollouts": np.sort(view.index[places])[:MOST_ROLLOUTS].tolist(),
        "rollouts_total": int(places.size),
    }


def plain(value: Any) -> Any:
    """Numbers of numpy as Python's; what is not finite is null."""
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value.tolist()]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
